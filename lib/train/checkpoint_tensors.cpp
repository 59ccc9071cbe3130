#include "train/checkpoint_tensors.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>

#include "base/error.h"
#include "model/weights_io.h"

namespace verlcpp::train {

namespace fs = std::filesystem;

namespace {

/// A flat buffer and what its tensors' names end with in a file.
struct Stored {
  const model::ParameterBuffer& buffer;
  std::string suffix;
};

std::vector<Stored> optimizer_state(const RunTensors& tensors) {
  return {{tensors.optimizer.master(tensors.weights), ".master"},
          {tensors.optimizer.exp_avg(), ".exp_avg"},
          {tensors.optimizer.exp_avg_sq(), ".exp_avg_sq"}};
}

bool contains(const std::vector<std::string>& names, const char* name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void create_folder(const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) throw DeviceError(folder.string() + ": cannot be created: " + failed.message());
}

/// `prepare` runs on rank 0 before the file is created.
void write_file(const Engine& engine, const std::vector<Stored>& buffers, const fs::path& path,
                const std::function<void()>& prepare) {
  std::vector<model::TensorEntry> entries;
  for (const Stored& stored : buffers) {
    auto more =
        model::hf_entries(stored.buffer.layout(), stored.buffer.flat().dtype(), stored.suffix);
    std::move(more.begin(), more.end(), std::back_inserter(entries));
  }
  const auto beat = [&] { engine.comm.status.beat(); };
  model::SafetensorsWriter file(path.string(), std::move(entries), beat);
  if (engine.topology.rank() == 0) {
    prepare();
    file.create();
  }
  engine.comm.world.barrier();
  for (const Stored& stored : buffers) {
    model::write_hf_share(engine.backend, stored.buffer,
                          stored.buffer.layout().share(engine.pool_rank()), stored.suffix, file,
                          beat);
  }
  file.close();
  engine.comm.world.barrier();
}

}  // namespace

bool names_weights(const std::vector<std::string>& contents) {
  return contains(contents, "model") || contains(contents, "hf_model");
}

bool names_optimizer(const std::vector<std::string>& contents) {
  return contains(contents, "optimizer");
}

void write_checkpoint_tensors(const Engine& engine, const RunTensors& tensors,
                              const std::vector<std::string>& contents, const std::string& folder) {
  const fs::path root(folder);
  if (names_weights(contents)) {
    const std::string target = (root / kModelFolder).string();
    write_file(engine, {{tensors.weights, ""}}, root / kModelFolder / "model.safetensors", [&] {
      model::export_hf_files(tensors.source, target, tensors.model, tensors.weights.flat().dtype());
    });
  }
  if (names_optimizer(contents)) {
    const fs::path path = root / kOptimizerFile;
    write_file(engine, optimizer_state(tensors), path, [&] { create_folder(path.parent_path()); });
  }
}

void load_checkpoint_tensors(const Engine& engine, const RunTensors& tensors,
                             const std::vector<std::string>& contents, const std::string& folder,
                             const std::function<void()>& beat) {
  const fs::path root(folder);
  if (names_optimizer(contents)) {
    const model::SafetensorsReader reader((root / kOptimizerFile).string());
    for (const Stored& stored : optimizer_state(tensors)) {
      model::load_hf_tensors(engine.backend, reader, stored.suffix, stored.buffer, beat);
    }
    tensors.optimizer.restore_weights(tensors.weights);
  } else {
    expects(names_weights(contents), "a resume loads weights");
    model::load_hf_weights(engine.backend, (root / kModelFolder).string(), tensors.weights, beat);
    tensors.optimizer.take_master(tensors.weights);
  }
}

}  // namespace verlcpp::train
