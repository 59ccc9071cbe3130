#include "train/generation_dump.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "model/synced_file.h"
#include "train/made_folders.h"

namespace verlcpp::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

ordered_json ground_truth(const data::PromptRow& row) {
  if (row.ground_truth_json.empty()) return row.ground_truth;
  return ordered_json::parse(row.ground_truth_json);
}

std::string line_of(const data::Tokenizer& tokenizer, const data::PromptRow& row, int64_t step,
                    const data::Trajectory& response) {
  ordered_json line = {{"input", tokenizer.decode(response.prompt_ids)},
                       {"output", tokenizer.decode(response.response_ids)},
                       {"gts", ground_truth(row)},
                       {"score", response.reward},
                       {"step", step},
                       {"uid", response.uid}};
  for (const data::RewardExtra& extra : response.reward_extras) {
    if (!line.contains(extra.name)) line[extra.name] = ordered_json::parse(extra.json);
  }
  return line.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

/// Aside first, so that nobody meets half a file.
void write_whole(const fs::path& file, const std::string& text) {
  std::error_code failed;
  const MadeFolders made(file.parent_path(), failed);
  if (failed) throw DeviceError(file.string() + ": cannot make its folder: " + failed.message());
  made.sync();
  const fs::path aside = file.string() + ".tmp";
  try {
    model::write_synced(aside.string(), text);
    fs::rename(aside, file, failed);
    if (failed) throw DeviceError(file.string() + ": cannot be written: " + failed.message());
  } catch (...) {
    std::error_code ignored;
    fs::remove(aside, ignored);
    throw;
  }
  model::sync_folder(file.parent_path().string());
}

}  // namespace

void dump_generations(const std::string& key, const std::string& folder, int64_t step,
                      const data::Tokenizer& tokenizer, const RolloutSpec& spec,
                      std::span<const data::Trajectory> responses) {
  std::vector<size_t> order(responses.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return responses[a].uid < responses[b].uid; });
  std::string text;
  for (const size_t i : order) text += line_of(tokenizer, spec.row_of(i), step, responses[i]);
  const fs::path file = fs::path(folder) / (std::to_string(step) + ".jsonl");
  try {
    write_whole(file, text);
  } catch (const DeviceError& e) {
    throw DeviceError(key + ": " + e.what());
  }
  log::info("Dumped generations to " + file.string());
}

}  // namespace verlcpp::train
