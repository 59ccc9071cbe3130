#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "train/checkpoint.h"

namespace verlcpp::train {

/// What the manifest (actor/ckpt_contents.json, verl's schema 2) says of the checkpoint.
struct CheckpointManifest {
  std::string architecture;
  int64_t world_size = 1;
  std::vector<std::string> save_contents;
};

/// A checkpoint being written, by one rank: aside first, then renamed, the tracker last, older ones
/// removed only afterwards. Until publish() the checkpoint before it and the tracker are untouched,
/// and a draft that ends before, by an error, takes its files with it, so that a full disk is not
/// left fuller; where the process ends without unwinding (a kill, a rank that does not come back),
/// the next run removes them. `beat` is called all the while. DeviceError names the path, the
/// reason and, of a file, the bytes needed.
class CheckpointDraft {
 public:
  /// Makes the empty folder CheckpointFolder::aside_folder(state.step); tensor files go below its
  /// actor/.
  CheckpointDraft(const CheckpointFolder& folder, const CheckpointState& state,
                  CheckpointManifest manifest, std::function<void()> beat = {});
  ~CheckpointDraft();
  CheckpointDraft(const CheckpointDraft&) = delete;
  CheckpointDraft& operator=(const CheckpointDraft&) = delete;

  const std::string& path() const { return aside_; }
  /// A small file of the checkpoint.
  void add(const std::string& name, const std::string& text) const;
  /// The last that needs space: state.json, the manifest with the SHA-256 of every file so far, the
  /// tracker's next content. All is on the disk afterwards.
  void seal();
  /// Renames only. A folder of the same step is replaced. Keeps the newest `max_to_keep` of the
  /// run (null: all). Returns the final folder.
  std::string publish(const std::optional<int64_t>& max_to_keep);

 private:
  CheckpointFolder folder_;
  CheckpointState state_;
  CheckpointManifest manifest_;
  std::function<void()> beat_;
  std::string aside_, tracker_, tracker_aside_;
  bool sealed_ = false, moved_ = false;
};

}  // namespace verlcpp::train
