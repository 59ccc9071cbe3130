#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace verlcpp::train {

struct TrainerConfig {
  int64_t total_epochs = 0;
  std::optional<int64_t> total_training_steps;
  std::string project_name, experiment_name;
  std::vector<std::string> logger;
  int64_t nnodes = 1, n_gpus_per_node = 1;
  int64_t ranks_per_gpu = 1;  // ours
  int64_t save_freq = -1;
  int64_t test_freq = -1;  // steps between validations; none where it is not positive
  bool val_before_train = true, val_only = false;
  std::optional<std::string> rollout_data_dir, validation_data_dir;
  std::string resume_mode;
  std::optional<std::string> resume_from_path;
  std::string default_local_dir;
  std::optional<int64_t> max_actor_ckpt_to_keep;
  std::string device;
  template <class V>
  void fields(V& v) {
    v("total_epochs", total_epochs);
    v("total_training_steps", total_training_steps);
    v("project_name", project_name);
    v("experiment_name", experiment_name);
    v("logger", logger);
    v("nnodes", nnodes);
    v("n_gpus_per_node", n_gpus_per_node);
    v("ranks_per_gpu", ranks_per_gpu);
    v("save_freq", save_freq);
    v("test_freq", test_freq);
    v("val_before_train", val_before_train);
    v("val_only", val_only);
    v("rollout_data_dir", rollout_data_dir);
    v("validation_data_dir", validation_data_dir);
    v("resume_mode", resume_mode);
    v("resume_from_path", resume_from_path);
    v("default_local_dir", default_local_dir);
    v("max_actor_ckpt_to_keep", max_actor_ckpt_to_keep);
    v("device", device);
  }

  /// Whether the run saves by the way; a stop may save besides.
  bool saves() const { return save_freq > 0 && !val_only; }
};

}  // namespace verlcpp::train
