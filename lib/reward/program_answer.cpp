#include "reward/program_answer.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "data/json_text.h"
#include "data/utf8.h"
#include "reward/extras.h"

namespace verlcpp::reward {
namespace {

using Json = nlohmann::ordered_json;

std::optional<double> number(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1.0 : 0.0;
  if (!value.is_number()) return {};
  const double number = value.get<double>();
  return std::isfinite(number) ? std::optional(number) : std::nullopt;
}

/// verl's naive manager: a dict's score with the whole dict as extras, else the score as acc.
std::optional<Reward> reward_of(const Json& result) {
  if (!result.is_object()) {
    const Json& first = result.is_array() && !result.empty() ? result[0] : result;
    const auto score = number(first);
    if (!score) return {};
    return Reward{*score, {{"acc", first.dump(), score}}};
  }
  const auto field = result.find("score");
  const auto score = field == result.end() ? std::nullopt : number(*field);
  if (!score) return {};
  Reward reward{*score, {}};
  for (const auto& [name, value] : result.items()) {
    reward.extras.push_back({name, value.dump(), number(value)});
  }
  return reward;
}

std::string text_of(const Json& json, const char* name) {
  const auto field = json.find(name);
  if (field == json.end()) return "";
  return field->is_string() ? field->get<std::string>() : field->dump();
}

std::string reason_of(const Json& json, const char* name) {
  const std::string traceback = text_of(json, "traceback");
  return text_of(json, name) + (traceback.empty() ? "" : "\n" + traceback);
}

}  // namespace

std::optional<Answer> parse_answer(const std::string& line) {
  const Json json = data::parse_json_or_discard(line);
  if (!json.is_object()) return {};
  if (json.contains("fatal")) return Answer{Answer::Kind::kFatal, -1, {}, reason_of(json, "fatal")};
  if (json.contains("ready")) return Answer{Answer::Kind::kReady, -1, {}, ""};
  const auto id = json.find("id");
  if (id == json.end() || !id->is_number_integer()) return {};
  Answer answer{Answer::Kind::kError, id->get<int64_t>(), {}, ""};
  if (json.contains("error")) {
    answer.reason = reason_of(json, "error");
    return answer;
  }
  const auto result = json.find("result");
  if (result == json.end()) return {};
  if (const auto reward = reward_of(*result)) {
    answer.kind = Answer::Kind::kReward;
    answer.reward = *reward;
  } else {
    answer.reason = "the result is " + shown(result->dump(), 200) +
                    "; valid: a finite number or truth value, an object with one as its score, or "
                    "a list that begins with one";
  }
  return answer;
}

std::string shown(const std::string& text, size_t limit) {
  std::string out = data::utf8_lossy(text.substr(0, limit));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') c = '?';
  }
  if (text.size() > limit) out += " ... (" + std::to_string(text.size()) + " bytes)";
  return out;
}

}  // namespace verlcpp::reward
