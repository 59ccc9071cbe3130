#pragma once

#include <string>
#include <vector>

#include "jinja/value.h"

namespace verlcpp::jinja {

/// The `loop` of a for loop: loop.index, loop.first, loop.previtem, ...
class Loop : public Object, public std::enable_shared_from_this<Loop> {
 public:
  explicit Loop(std::vector<Value> items) : items_(std::move(items)) {}
  const std::vector<Value>& items() const { return items_; }
  void set_index(size_t index) { index_ = index; }
  std::optional<Value> attribute(const std::string& name) override;
  std::string text() const override;

 private:
  Value neighbour(bool next) const;
  Value cycle(const Args& args) const;
  Value changed(const Args& args);

  std::vector<Value> items_;
  size_t index_ = 0;
  std::optional<std::vector<Value>> seen_;  // what changed() was last called with
};

}  // namespace verlcpp::jinja
