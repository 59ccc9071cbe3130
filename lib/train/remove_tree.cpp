#include "train/remove_tree.h"

namespace verlcpp::train {

namespace fs = std::filesystem;

void remove_tree(const fs::path& path, const std::function<void()>& beat, std::error_code& failed) {
  failed.clear();
  if (beat) beat();
  const fs::file_status status = fs::symlink_status(path, failed);
  if (status.type() == fs::file_type::not_found) {
    failed.clear();
    return;
  }
  if (failed) return;
  if (status.type() == fs::file_type::directory) {
    for (fs::directory_iterator it(path, failed), end; !failed && it != end; it.increment(failed)) {
      remove_tree(it->path(), beat, failed);
      if (failed) return;
    }
    if (failed) return;
  }
  fs::remove(path, failed);
}

}  // namespace verlcpp::train
