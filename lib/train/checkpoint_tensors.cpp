#include "train/checkpoint_tensors.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "model/weights_io.h"

namespace verlcpp::train {

namespace fs = std::filesystem;

namespace {

bool contains(const std::vector<std::string>& names, const char* name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

// Every rank holds the whole state, so rank 0 writes it alone.
void write_checkpoint_tensors(const Engine& engine, const RunTensors& run,
                              const std::vector<std::string>& contents, const std::string& folder) {
  if (engine.topology.rank() != 0) return;
  const DType dtype = run.weights.flat().dtype();
  if (contains(contents, "model") || contains(contents, "hf_model")) {
    model::export_hf_folder(engine.backend, run.model_folder,
                            (fs::path(folder) / kModelFolder).string(), run.model, run.weights,
                            dtype);
  }
  if (!contains(contents, "optimizer")) return;
  const fs::path file = fs::path(folder) / kOptimizerFile;
  fs::create_directories(file.parent_path());
  std::vector<model::TensorToWrite> tensors;
  for (const auto& [buffer, suffix] :
       {std::pair{&run.weights, ".master"}, std::pair{&run.optimizer.exp_avg(), ".exp_avg"},
        std::pair{&run.optimizer.exp_avg_sq(), ".exp_avg_sq"}}) {
    auto more = model::hf_tensors(engine.backend, *buffer, dtype, suffix);
    std::move(more.begin(), more.end(), std::back_inserter(tensors));
  }
  model::write_safetensors(file.string(), tensors);
}

void load_checkpoint_tensors(const Engine& engine, const RunTensors& run,
                             const std::vector<std::string>& contents, const std::string& folder) {
  if (contains(contents, "optimizer")) {
    const model::SafetensorsReader reader((fs::path(folder) / kOptimizerFile).string());
    model::load_hf_tensors(engine.backend, reader, ".master", run.weights);
    model::load_hf_tensors(engine.backend, reader, ".exp_avg", run.optimizer.exp_avg());
    model::load_hf_tensors(engine.backend, reader, ".exp_avg_sq", run.optimizer.exp_avg_sq());
  } else if (contains(contents, "model")) {
    model::load_hf_weights(engine.backend, (fs::path(folder) / kModelFolder).string(), run.weights);
  }
}

}  // namespace verlcpp::train
