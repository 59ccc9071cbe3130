#pragma once

#include <string>
#include <vector>

#include "config/tree.h"
#include "train/train_config.h"
#include "train/validate.h"

namespace verlcpp::train {

/// Relative paths that the run writes (checkpoints, the metrics file's folder, dumps, recording)
/// lie below `folder` from here on, $VERL_FILE_LOGGER_ROOT still before that of the metrics file;
/// absolute ones, and what the run reads, stay. Nothing for "". Before validate(), which tries the
/// folder.
void place_outputs(TrainConfig& config, const std::string& folder);

/// The metrics file; "" for a run that keeps none.
std::string metrics_file(const TrainConfig& config);

/// All files and folders that the run writes, by where they are.
std::vector<NamedFile> outputs(const TrainConfig& config, const config::Node& tree);

}  // namespace verlcpp::train
