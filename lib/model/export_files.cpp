#include "model/export_files.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/error.h"
#include "data/text_file.h"
#include "model/synced_file.h"

namespace verlcpp::model {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kTokenizerConfig = "tokenizer_config.json";
constexpr const char* kTemplateFile = "chat_template.jinja";
constexpr const char* kMoreTemplates = "additional_chat_templates";

void create_folder(const fs::path& folder) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure) throw DeviceError(folder.string() + ": cannot be created: " + failure.message());
}

void copy_synced(const fs::path& source, const fs::path& target) {
  if (fs::exists(source)) write_synced(target.string(), data::read_text_file(source.string()));
}

std::string config_text(const ModelConfig& config, DType dtype) {
  Json json = Json::parse(config.json);
  const std::string name(name_of(dtype));
  if (json.contains("dtype")) json["dtype"] = name;
  if (json.contains("torch_dtype") || !json.contains("dtype")) json["torch_dtype"] = name;
  return json.dump(2) + "\n";
}

/// The template's file, tokenizer_config.json (which may hold the template) and the folder of named
/// templates, as they are.
void copy_template_files(const fs::path& source, const fs::path& target) {
  copy_synced(source / kTokenizerConfig, target / kTokenizerConfig);
  copy_synced(source / kTemplateFile, target / kTemplateFile);
  if (!fs::is_directory(source / kMoreTemplates)) return;
  create_folder(target / kMoreTemplates);
  for (const auto& entry : fs::directory_iterator(source / kMoreTemplates)) {
    if (entry.path().extension() != ".jinja") continue;
    copy_synced(entry.path(), target / kMoreTemplates / entry.path().filename());
  }
}

/// The same with one template instead of all that the source has.
void write_template_files(const fs::path& source, const fs::path& target,
                          const std::string& chat_template) {
  const fs::path config = source / kTokenizerConfig;
  const bool in_file = fs::exists(source / kTemplateFile) || !fs::exists(config);
  if (in_file) write_synced((target / kTemplateFile).string(), chat_template);
  if (!fs::exists(config)) return;
  Json json = Json::parse(data::read_text_file(config.string()));
  if (!in_file || json.contains("chat_template")) json["chat_template"] = chat_template;
  write_synced((target / kTokenizerConfig).string(), json.dump(2) + "\n");
}

}  // namespace

void export_hf_files(const ExportSource& source, const std::string& target_folder,
                     const ModelConfig& config, DType dtype) {
  const fs::path from = source.folder, to = target_folder;
  create_folder(to);
  for (const char* name :
       {"generation_config.json", "tokenizer.json", "tokenizer.model", "special_tokens_map.json",
        "added_tokens.json", "vocab.json", "merges.txt"}) {
    copy_synced(from / name, to / name);
  }
  if (source.chat_template) {
    write_template_files(from, to, *source.chat_template);
  } else {
    copy_template_files(from, to);
  }
  write_synced((to / "config.json").string(), config_text(config, dtype));
}

}  // namespace verlcpp::model
