#pragma once

#include <string>
#include <vector>

namespace verlcpp::test {

struct Outcome {
  int code = -1;  // exit code, or -1 when the program was killed
  std::string out, err;
};

/// Runs verlcpp-train with these arguments, each passed as it is.
Outcome run_binary(const std::vector<std::string>& arguments);

/// A folder under the system's temporary one, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }
  /// Writes a file (and the folders on the way); returns its path.
  std::string write(const std::string& name, const std::string& text) const;

 private:
  std::string path_;
};

}  // namespace verlcpp::test
