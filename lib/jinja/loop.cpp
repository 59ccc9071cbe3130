#include "jinja/loop.h"

namespace verlcpp::jinja {

Value Loop::neighbour(bool next) const {
  if (next && index_ + 1 < items_.size()) return items_[index_ + 1];
  if (!next && index_ > 0) return items_[index_ - 1];
  return undefined(next ? "there is no next item" : "there is no previous item");
}

Value Loop::cycle(const Args& args) const {
  if (args.positional.empty()) throw EvalError("no items for cycling given");
  return args.positional[index_ % args.positional.size()];
}

Value Loop::changed(const Args& args) {
  bool same = seen_ && seen_->size() == args.positional.size();
  for (size_t i = 0; same && i < seen_->size(); ++i) same = equal((*seen_)[i], args.positional[i]);
  if (!same) seen_ = args.positional;
  return !same;
}

std::optional<Value> Loop::attribute(const std::string& name) {
  const auto index = static_cast<int64_t>(index_), count = static_cast<int64_t>(items_.size());
  if (name == "index") return index + 1;
  if (name == "index0") return index;
  if (name == "revindex") return count - index;
  if (name == "revindex0") return count - index - 1;
  if (name == "first") return index == 0;
  if (name == "last") return index + 1 == count;
  if (name == "length") return count;
  if (name == "previtem") return neighbour(false);
  if (name == "nextitem") return neighbour(true);
  if (name == "depth") return 1;
  if (name == "depth0") return 0;
  const std::weak_ptr<Loop> weak = weak_from_this();
  const auto method = [&](Value (*call)(Loop&, const Args&)) {
    return make_callable(name, [weak, call](Args args) {
      const auto loop = weak.lock();
      if (!loop) throw EvalError("uses a loop that has ended");
      return call(*loop, args);
    });
  };
  if (name == "cycle") return method([](Loop& loop, const Args& args) { return loop.cycle(args); });
  if (name == "changed") {
    return method([](Loop& loop, const Args& args) { return loop.changed(args); });
  }
  return std::nullopt;
}

std::string Loop::text() const {
  return "<LoopContext " + std::to_string(index_ + 1) + "/" + std::to_string(items_.size()) + ">";
}

}  // namespace verlcpp::jinja
