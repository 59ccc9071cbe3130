#include "train/made_folders.h"

#include "model/synced_file.h"

namespace verlcpp::train {

namespace fs = std::filesystem;

MadeFolders::MadeFolders(const fs::path& folder, std::error_code& failed) {
  failed.clear();
  if (folder.empty()) return;
  std::error_code ignored;
  for (fs::path path = folder; !path.empty() && !fs::exists(path, ignored);) {
    made_.push_back(path);
    path = path.parent_path();
  }
  fs::create_directories(folder, failed);
}

void MadeFolders::sync() const {
  for (const fs::path& folder : made_) {
    // "a/b/" is among them as "a/b/" and as "a/b".
    if (folder.has_filename()) model::sync_folder(folder.parent_path().string());
  }
}

void MadeFolders::remove_empty() const {
  std::error_code ignored;
  for (const fs::path& folder : made_) fs::remove(folder, ignored);
}

}  // namespace verlcpp::train
