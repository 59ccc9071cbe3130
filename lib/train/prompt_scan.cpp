#include "train/prompt_scan.h"

#include <fmt/format.h>

#include <optional>

#include "base/error.h"
#include "base/log.h"

namespace verlcpp::train {
namespace {

/// A row of the files and the tokens of its prompt; none where it is dropped.
struct ScannedRow {
  data::PromptRow row;
  std::optional<std::vector<int32_t>> ids;
};

class Scanner {
 public:
  Scanner(const DataConfig& config, const PromptFiles& files, const data::Tokenizer& tokenizer,
          const data::ChatTemplate& chat, const reward::Manager& reward)
      : config_(config),
        files_(files),
        tokenizer_(tokenizer),
        chat_(chat),
        reward_(reward),
        report_(files.key) {}

  std::vector<ScannedRow> scan(const std::function<void()>& beat) {
    data::scan_prompts({.key = files_.key,
                        .train_files = files_.files,
                        .prompt_key = config_.prompt_key,
                        .reward_fn_key = config_.reward_fn_key,
                        .filter_overlong_prompts = config_.filter_overlong_prompts},
                       report_, [&](data::ParsedRow parsed) {
                         beat();
                         check(std::move(parsed));
                       });
    report_.throw_if_unusable();
    return std::move(rows_);
  }

  void tell() const {
    if (const std::string dropped = report_.dropped_text(); !dropped.empty()) log::info(dropped);
    if (cut_ == 0) return;
    log::warning(fmt::format(
        "{}: {} of {} prompts are longer than data.max_prompt_length={} tokens and cut "
        "(data.truncation={})",
        files_.key, cut_, report_.rows(), config_.max_prompt_length, config_.truncation));
  }

 private:
  void check(data::ParsedRow parsed) {
    if (parsed.has_data_source) {
      const std::string why = reward_.why_not_scored(parsed.row, parsed.has_ground_truth);
      if (!why.empty()) report_.add("reward of " + parsed.row.data_source, why);
    }
    std::optional<std::vector<int32_t>> ids;
    if (parsed.has_prompt) ids = encode(parsed.row);
    rows_.push_back({std::move(parsed.row), std::move(ids)});
  }

  std::optional<std::vector<int32_t>> encode(const data::PromptRow& row) {
    // verl's filter takes whatever fails here for a prompt that is too long.
    const data::Fate fate =
        config_.filter_overlong_prompts ? data::Fate::kDropped : data::Fate::kStops;
    std::string text;
    try {
      text = data::render_chat(chat_, row.prompt, true, row.tools_json);
    } catch (const DataError& error) {
      report_.add(std::string("render: ") + error.what(), error.what(), fate);
      return std::nullopt;
    }
    std::vector<int32_t> ids;
    try {
      ids = tokenizer_.encode(text);
    } catch (const DataError& error) {
      report_.add("tokens", error.what(), fate);
      return std::nullopt;
    }
    if (ids.empty()) {
      report_.add("no token", "the prompt renders to no token; valid: one or more", fate);
      return std::nullopt;
    }
    return fit(std::move(ids), fate);
  }

  /// The tokens of a prompt that may be too long.
  std::optional<std::vector<int32_t>> fit(std::vector<int32_t> ids, data::Fate fate) {
    const int64_t limit = config_.max_prompt_length;
    if (static_cast<int64_t>(ids.size()) <= limit) return ids;
    if (!config_.filter_overlong_prompts && config_.truncation != "error") {
      ++cut_;
      return truncate_prompt(std::move(ids), limit, config_.truncation);
    }
    report_.add(
        "overlong",
        fmt::format("the prompt has {} tokens, data.max_prompt_length is {}", ids.size(), limit) +
            (fate == data::Fate::kDropped
                 ? ""
                 : "; raise it, set data.filter_overlong_prompts=True, or data.truncation "
                   "to left, right or middle"),
        fate);
    return std::nullopt;
  }

  const DataConfig& config_;
  const PromptFiles& files_;
  const data::Tokenizer& tokenizer_;
  const data::ChatTemplate& chat_;
  const reward::Manager& reward_;
  data::RowReport report_;
  std::vector<ScannedRow> rows_;
  int64_t cut_ = 0;
};

}  // namespace

PromptFiles train_prompt_files(const DataConfig& config) {
  return {"data.train_files", config.train_files, "data.train_max_samples",
          config.train_max_samples};
}

PromptFiles val_prompt_files(const DataConfig& config) {
  return {"data.val_files", config.val_files.value_or(std::vector<std::string>()),
          "data.val_max_samples", config.val_max_samples};
}

std::vector<PromptFiles> prompt_files(const TrainConfig& config, const config::Node& tree) {
  std::vector<PromptFiles> all{train_prompt_files(config.data)};
  const auto set = [&tree](const char* key) {
    const config::Node* node = tree.find(key);
    return node != nullptr && !is_shipped(node->origin());
  };
  const TrainerConfig& trainer = config.trainer;
  const bool asked = trainer.test_freq > 0 || trainer.val_only ||
                     (trainer.val_before_train && set("trainer.val_before_train"));
  PromptFiles validation = val_prompt_files(config.data);
  if (!validation.files.empty() && (asked || set("data.val_files"))) {
    all.push_back(std::move(validation));
  }
  return all;
}

Prompts scan_prompts(const DataConfig& config, const PromptFiles& files,
                     const data::Tokenizer& tokenizer, const data::ChatTemplate& chat,
                     const reward::Manager& reward, const std::function<void()>& beat) {
  Scanner scanner(config, files, tokenizer, chat, reward);
  std::vector<ScannedRow> scanned = scanner.scan(beat);
  log::info("dataset len: " + std::to_string(scanned.size()));
  scanner.tell();
  const std::vector<int64_t> chosen =
      data::sample_rows(static_cast<int64_t>(scanned.size()), files.max_samples, config.shuffle,
                        static_cast<uint64_t>(config.seed.value_or(0)), files.max_samples_key);
  if (chosen.size() < scanned.size()) {
    log::info(fmt::format("selected {} {} samples out of {}", chosen.size(),
                          config.shuffle ? "random" : "first", scanned.size()));
  }
  Prompts out;
  for (const int64_t index : chosen) {
    ScannedRow& row = scanned[static_cast<size_t>(index)];
    if (!row.ids) continue;
    out.rows.push_back(std::move(row.row));
    out.ids.push_back(std::move(*row.ids));
  }
  if (config.filter_overlong_prompts) {
    log::info("filter dataset len: " + std::to_string(out.rows.size()));
  }
  if (out.rows.empty()) {
    throw DataError(
        fmt::format("{}: no row can be used; all {} that {} took are dropped "
                    "(data.filter_overlong_prompts=True)",
                    files.key, chosen.size(), files.max_samples_key));
  }
  return out;
}

std::vector<int32_t> truncate_prompt(std::vector<int32_t> ids, int64_t limit,
                                     const std::string& truncation) {
  if (static_cast<int64_t>(ids.size()) <= limit) return ids;
  if (truncation == "left") return {ids.end() - limit, ids.end()};
  if (truncation == "right") return {ids.begin(), ids.begin() + limit};
  expects(truncation == "middle", "a truncation that cuts");
  const int64_t head = limit / 2;
  ids.erase(ids.begin() + head, ids.end() - (limit - head));
  return ids;
}

}  // namespace verlcpp::train
