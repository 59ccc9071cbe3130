#include "train/checkpoint.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"

namespace verlcpp::train {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

namespace {

constexpr const char* kTracker = "latest_checkpointed_iteration.txt";
constexpr const char* kManifest = "actor/ckpt_contents.json";
constexpr const char* kPrefix = "global_step_";

/// N of "global_step_N", or nothing.
std::optional<int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return {};
  const std::string digits = name.substr(std::strlen(kPrefix));
  int64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (error != std::errc() || end != digits.data() + digits.size()) return {};
  return step;
}

/// Brings a file or folder as it is to the disk.
void sync_path(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY);
  const bool good = fd >= 0 && ::fsync(fd) == 0;
  const int reason = errno;
  if (fd >= 0) ::close(fd);
  if (!good) throw DeviceError("checkpoint " + path.string() + ": " + std::strerror(reason));
}

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text << std::flush;
  if (!out) {
    throw DeviceError("checkpoint " + path.string() + ": cannot write " +
                      std::to_string(text.size()) + " bytes: " + std::strerror(errno));
  }
  out.close();
  sync_path(path);
}

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw DataError("checkpoint file " + path.string() + " cannot be read");
  return {std::istreambuf_iterator<char>(in), {}};
}

nlohmann::json read_object(const std::string& folder, const char* name) {
  const std::string path = (fs::path(folder) / name).string();
  nlohmann::json json = nlohmann::json::parse(read_text(path), nullptr, false);
  if (!json.is_object()) throw DataError("checkpoint file " + path + " is not a JSON object");
  return json;
}

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(fs::relative(entry.path(), folder));
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// Every file and folder below `folder`, then the folder: without its folders a file is not safe.
void sync_tree(const fs::path& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() || entry.is_directory()) sync_path(entry.path());
  }
  sync_path(folder);
}

/// Puts `aside` in the place of `target`. A `target` saved before is exchanged in one step, so that
/// the name the tracker holds never dangles, and removed afterwards.
void move_into_place(const fs::path& aside, const fs::path& target) {
  if (!fs::exists(target)) return fs::rename(aside, target);
  const int exchanged =
      ::renameat2(AT_FDCWD, aside.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE);
  if (exchanged == 0) {
    fs::remove_all(aside);
    return;
  }
  if (errno != EINVAL && errno != ENOSYS) {
    throw DeviceError("checkpoint " + target.string() +
                      " cannot be replaced: " + std::strerror(errno));
  }
  fs::remove_all(target);  // a file system that cannot exchange
  fs::rename(aside, target);
}

/// verl's manifest fields, and a digest of every file written so far.
ordered_json manifest_json(const fs::path& folder, const CheckpointState& state,
                           const CheckpointManifest& manifest) {
  ordered_json contents, digests;
  if (fs::exists(folder / "actor/model/huggingface")) {
    contents["model"] = {{"path", "model/huggingface"}, {"format", "huggingface"}};
    contents["hf_config"] = {{"path", "model/huggingface"}, {"format", "huggingface"}};
  }
  if (fs::exists(folder / "actor/optimizer/dist_ckpt")) {
    contents["optimizer"] = {{"path", "optimizer/dist_ckpt"}, {"format", "safetensors"}};
  }
  for (const fs::path& file : files_below(folder)) {
    digests[file.string()] = sha256_of_file((folder / file).string());
  }
  return {{"schema_version", 2},
          {"framework", "megatron"},
          {"role", "actor"},
          {"arch", manifest.architecture},
          {"global_step", state.step},
          {"world_size", manifest.world_size},
          {"save_contents", manifest.save_contents},
          {"contents", contents},
          {"sha256", digests}};
}

void remove_older(const fs::path& root, int64_t newest, int64_t keep) {
  std::vector<int64_t> steps;
  for (const auto& entry : fs::directory_iterator(root)) {
    const auto step = step_of(entry.path().filename().string());
    if (step && *step <= newest) steps.push_back(*step);
  }
  std::sort(steps.rbegin(), steps.rend());
  for (size_t i = static_cast<size_t>(std::max<int64_t>(keep, 1)); i < steps.size(); ++i) {
    const fs::path old = root / (kPrefix + std::to_string(steps[i]));
    std::error_code failed;  // the new checkpoint is good: no reason to stop a run
    fs::remove_all(old, failed);
    if (failed)
      log::warning("checkpoint " + old.string() + " cannot be removed: " + failed.message());
  }
}

/// An OpenSSL digest under construction.
class Digest {
 public:
  Digest() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    expects(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1, "SHA-256 starts");
  }
  void update(const char* bytes, size_t n) {
    expects(EVP_DigestUpdate(context_.get(), bytes, n) == 1, "SHA-256 takes bytes");
  }
  std::string hex() {
    std::array<unsigned char, 32> value{};
    expects(EVP_DigestFinal_ex(context_.get(), value.data(), nullptr) == 1, "SHA-256 ends");
    std::string text;
    for (unsigned char byte : value) {
      text += "0123456789abcdef"[byte >> 4];
      text += "0123456789abcdef"[byte & 15];
    }
    return text;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace

std::string sha256(const std::string& bytes) {
  Digest digest;
  digest.update(bytes.data(), bytes.size());
  return digest.hex();
}

std::string sha256_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw DataError("checkpoint file " + path + " cannot be read");
  Digest digest;
  std::vector<char> block(1 << 20);
  while (in) {
    in.read(block.data(), static_cast<std::streamsize>(block.size()));
    digest.update(block.data(), static_cast<size_t>(in.gcount()));
  }
  return digest.hex();
}

std::vector<std::string> CheckpointFolder::remove_leftovers() const {
  std::vector<std::string> removed;
  if (!fs::is_directory(root_)) return removed;
  try {
    for (const auto& entry : fs::directory_iterator(root_)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with(".global_step_") && name.ends_with(".tmp")) removed.push_back(name);
    }
    for (const std::string& name : removed) fs::remove_all(fs::path(root_) / name);
  } catch (const fs::filesystem_error& e) {
    throw DeviceError("checkpoint folder " + root_ + " cannot be cleaned: " + e.what());
  }
  return removed;
}

std::optional<std::string> CheckpointFolder::find(
    const std::string& resume_mode, const std::optional<std::string>& resume_from_path) const {
  if (resume_mode == "disable") return {};
  if (resume_mode == "resume_path") {
    if (!resume_from_path || resume_from_path->find(kPrefix) == std::string::npos) {
      throw ConfigError("trainer.resume_from_path=" + resume_from_path.value_or("null") +
                        " must name a folder called global_step_N when trainer.resume_mode="
                        "resume_path");
    }
    fs::path path(*resume_from_path);
    if (path.filename().empty()) path = path.parent_path();
    if (!step_of(path.filename().string()) || !fs::is_directory(path)) {
      throw ConfigError("trainer.resume_from_path=" + *resume_from_path +
                        " is not a folder called global_step_N");
    }
    return path.string();
  }
  const fs::path tracker = fs::path(root_) / kTracker;
  if (!fs::exists(tracker)) return {};
  std::string text = read_text(tracker);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  const fs::path folder = fs::path(root_) / (kPrefix + text);
  if (!step_of(kPrefix + text)) {
    throw DataError("checkpoint file " + tracker.string() + " must hold a step number, got '" +
                    text + "'");
  }
  if (!fs::is_directory(folder)) {
    log::warning("checkpoint " + folder.string() + " named by " + tracker.string() +
                 " is not there; starting from scratch");
    return {};
  }
  return folder.string();
}

void CheckpointFolder::check_writable() const {
  std::error_code failed;
  fs::create_directories(root_, failed);
  const fs::path probe = fs::path(root_) / ".write_test";
  if (!failed && std::ofstream(probe).put('x').flush()) {
    fs::remove(probe, failed);
    return;
  }
  throw DeviceError("trainer.default_local_dir=" + root_ + " cannot be written: " +
                    (failed ? failed.message() : std::string(std::strerror(errno))));
}

std::string CheckpointFolder::save(const CheckpointState& state, const CheckpointManifest& manifest,
                                   const std::optional<int64_t>& max_to_keep,
                                   const std::function<void(const std::string&)>& write) const {
  const fs::path root(root_),
      aside = root / (".global_step_" + std::to_string(state.step) + ".tmp");
  const fs::path target = root / (kPrefix + std::to_string(state.step));
  try {
    fs::remove_all(aside);
    fs::create_directories(aside / "actor");
    write(aside.string());
    const ordered_json json{{"step", state.step},
                            {"optimizer_steps", state.optimizer_steps},
                            {"kl_coef", state.kl_coef},
                            {"data_order", state.data_order},
                            {"model_digest", state.model_digest},
                            {"config_digest", state.config_digest}};
    write_text(aside / "state.json", json.dump(1) + "\n");
    write_text(aside / kManifest, manifest_json(aside, state, manifest).dump(1) + "\n");
    sync_tree(aside);
    move_into_place(aside, target);
    sync_path(root);
    write_text(root / (std::string(kTracker) + ".tmp"), std::to_string(state.step));
    fs::rename(root / (std::string(kTracker) + ".tmp"), root / kTracker);
    sync_path(root);
    if (max_to_keep && *max_to_keep > 0) remove_older(root, state.step, *max_to_keep);
  } catch (const fs::filesystem_error& e) {
    throw DeviceError("checkpoint " + target.string() + " cannot be saved: " + e.what());
  }
  return target.string();
}

CheckpointState read_state(const std::string& folder) {
  const nlohmann::json json = read_object(folder, "state.json");
  try {
    return {.step = json.at("step").get<int64_t>(),
            .optimizer_steps = json.at("optimizer_steps").get<int64_t>(),
            .kl_coef = json.at("kl_coef").get<double>(),
            .data_order = json.at("data_order").get<std::string>(),
            .model_digest = json.at("model_digest").get<std::string>(),
            .config_digest = json.at("config_digest").get<std::string>()};
  } catch (const nlohmann::json::exception& e) {
    throw DataError("checkpoint " + folder + ": state.json is incomplete: " + e.what());
  }
}

CheckpointState read_checkpoint(const std::string& folder) {
  const nlohmann::json manifest = read_object(folder, kManifest);
  if (manifest.value("schema_version", nlohmann::json()) != 2 ||
      !manifest.value("sha256", nlohmann::json()).is_object()) {
    throw DataError("checkpoint " + folder + ": " + kManifest +
                    " is not one of ours (schema_version 2 with sha256); start from its weights "
                    "with actor_rollout_ref.model.path");
  }
  for (const auto& [name, digest] : manifest["sha256"].items()) {
    const std::string path = (fs::path(folder) / name).string();
    if (digest == nlohmann::json(sha256_of_file(path))) continue;
    throw DataError("checkpoint file " + path +
                    " differs from the SHA-256 in its manifest; resume from another global_step_N "
                    "with trainer.resume_mode=resume_path, or remove the folder");
  }
  return read_state(folder);
}

}  // namespace verlcpp::train
