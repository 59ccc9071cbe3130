#pragma once

#include <cstdint>

#include "schedule/plan.h"

/// FNV-1a over every number of the plans that were added, in order: one number that says whether
/// any of many plans has changed.
class PlanDigest {
 public:
  void add(const verlcpp::schedule::Plan& plan) {
    add(plan.pool);
    for (const auto& micro_batch : plan.micro_batches) {
      add(-1);
      for (const auto& group : micro_batch.groups) {
        add(-2);
        for (const int rank : group.ranks) add(rank);
        add(-3);
        for (const int sample : group.samples) add(sample);
      }
    }
  }
  uint64_t value() const { return value_; }

 private:
  void add(int number) {
    value_ = (value_ ^ static_cast<uint32_t>(number)) * uint64_t{0x100000001b3};
  }

  uint64_t value_ = 0xcbf29ce484222325;
};
