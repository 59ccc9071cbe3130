#pragma once

#include <optional>
#include <string>

#include "model/model_config.h"
#include "tensor/dtype.h"

namespace verlcpp::model {

/// Where the files of an export that are not weights come from.
struct ExportSource {
  std::string folder;  // in Hugging Face's format
  /// verl's custom_chat_template, which the exported tokenizer has instead of the folder's.
  std::optional<std::string> chat_template = {};
};

/// Writes what belongs beside the weights in a Hugging Face folder: the source's config.json with
/// its dtype set to what is written, and the source's tokenizer and generation files where present.
/// A chat template of its own goes where transformers looks first: chat_template.jinja where the
/// source has that file, or has no tokenizer_config.json, else tokenizer_config.json. Creates the
/// folder; everything is synced to disk. DeviceError names the path.
void export_hf_files(const ExportSource& source, const std::string& target_folder,
                     const ModelConfig& config, DType dtype);

}  // namespace verlcpp::model
