#include "model/config_fields.h"

#include <limits>

#include "base/error.h"
#include "data/json_reason.h"

namespace verlcpp::model {
namespace {

using Json = nlohmann::json;

std::string text_of(const Json& value) {
  std::string text = value.dump();
  if (text.size() > 100) text = text.substr(0, 100) + "...";
  return text;
}

}  // namespace

void Fields::fail(const std::string& key, const std::string& valid) const {
  const Json* value = find(key);
  throw DataError(where_ + ": " + key + (value ? ": " + text_of(*value) : " is missing") +
                  "; valid: " + valid);
}

Fields Fields::object(const std::string& key) const {
  const Json* value = find(key);
  if (value == nullptr || !value->is_object()) fail(key, "an object");
  Fields inner(*value, where_ + ": " + key, asked_);
  inner.prefix_ = prefix_ + key + ".";
  return inner;
}

void Fields::note(const std::string& key) const {
  if (asked_ != nullptr) asked_->insert(prefix_ + key);
}

bool Fields::contains(const std::string& key) const {
  note(key);
  return object_.contains(key);
}

const Json* Fields::find(const std::string& key) const {
  note(key);
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

int64_t Fields::positive(const std::string& key, std::optional<int64_t> absent) const {
  return positive_up_to(std::numeric_limits<int32_t>::max(), "a positive integer", key, absent);
}

int64_t Fields::positive_up_to(int64_t max, const std::string& valid, const std::string& key,
                               std::optional<int64_t> absent) const {
  const Json* value = find(key);
  if (!value && absent) return *absent;
  if (!value || !value->is_number_integer() || *value < 1 || *value > max) fail(key, valid);
  return value->get<int64_t>();
}

double Fields::positive_number(const std::string& key, std::optional<double> absent) const {
  const Json* value = find(key);
  if (!value && absent) return *absent;
  if (!value || !value->is_number() || !(value->get<double>() > 0)) fail(key, "a positive number");
  return value->get<double>();
}

bool Fields::boolean(const std::string& key, bool absent) const {
  const Json* value = find(key);
  if (!value) return absent;
  if (!value->is_boolean()) fail(key, "true or false");
  return value->get<bool>();
}

void Fields::only(const std::string& key, const Json& valid, const std::string& why) const {
  const Json* value = find(key);
  if (value && *value != valid) fail(key, text_of(valid) + why);
}

std::vector<int32_t> Fields::token_ids(const std::string& key, int64_t vocab) const {
  const Json* value = find(key);
  if (!value) return {};
  std::vector<int32_t> out;
  for (const Json& id : value->is_array() ? *value : Json::array({*value})) {
    if (!id.is_number_integer() || id < 0 || id >= vocab) {
      fail(key, "a token id from 0 to " + std::to_string(vocab - 1) + ", or a list of them");
    }
    out.push_back(id.get<int32_t>());
  }
  return out;
}

Fields parse_fields(const std::string& text, const std::string& where,
                    std::set<std::string>* asked) {
  try {
    Json json = Json::parse(text);
    if (!json.is_object()) throw DataError(where + ": not a JSON object");
    return {std::move(json), where, asked};
  } catch (const Json::exception& error) {
    throw DataError(where + ": not JSON: " + data::json_reason(error.what(), false));
  }
}

}  // namespace verlcpp::model
