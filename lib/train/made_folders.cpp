#include "train/made_folders.h"

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

void MadeFolders::remove_empty() const {
  std::error_code ignored;
  for (const fs::path& folder : made_) fs::remove(folder, ignored);
}

}  // namespace verlcpp::train
