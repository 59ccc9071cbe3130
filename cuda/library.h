#pragma once

#include <string>

namespace verlcpp::cuda {

/// A shared library opened at run time, so that one executable starts on a machine without it.
/// Stays open until the process ends.
class Library {
 public:
  /// `names`: tried in order. DeviceError names them all, what they are for and the loader's
  /// reason.
  Library(const std::string& purpose, std::initializer_list<const char*> names);
  /// Of the file that was opened.
  std::string path() const;
  /// As dlopen returned it.
  void* handle() const { return handle_; }
  /// function<decltype(name)>("name"): nothing of the library is linked.
  template <class Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(symbol(name));
  }

 private:
  void* symbol(const char* name) const;
  std::string name_;
  void* handle_ = nullptr;
};

}  // namespace verlcpp::cuda
