#pragma once

#include <nccl.h>

#include "cuda/library.h"

namespace verlcpp::cuda {

/// DeviceError when it is missing or, before any function that an old one lacks is looked for, too
/// old.
Library open_nccl();

/// The functions used of NCCL, opened at run time.
struct NcclLibrary {
  Library library = open_nccl();
  decltype(ncclGetUniqueId)* get_unique_id =
      library.function<decltype(ncclGetUniqueId)>("ncclGetUniqueId");
  decltype(ncclCommInitRankConfig)* init_rank =
      library.function<decltype(ncclCommInitRankConfig)>("ncclCommInitRankConfig");
  decltype(ncclCommSplit)* split = library.function<decltype(ncclCommSplit)>("ncclCommSplit");
  decltype(ncclCommFinalize)* finalize =
      library.function<decltype(ncclCommFinalize)>("ncclCommFinalize");
  decltype(ncclCommDestroy)* destroy =
      library.function<decltype(ncclCommDestroy)>("ncclCommDestroy");
  decltype(ncclCommAbort)* abort = library.function<decltype(ncclCommAbort)>("ncclCommAbort");
  decltype(ncclCommGetAsyncError)* async_error =
      library.function<decltype(ncclCommGetAsyncError)>("ncclCommGetAsyncError");
  decltype(ncclGetErrorString)* error_string =
      library.function<decltype(ncclGetErrorString)>("ncclGetErrorString");
  decltype(ncclGetLastError)* last_error =
      library.function<decltype(ncclGetLastError)>("ncclGetLastError");
  decltype(ncclAllReduce)* all_reduce = library.function<decltype(ncclAllReduce)>("ncclAllReduce");
  decltype(ncclReduceScatter)* reduce_scatter =
      library.function<decltype(ncclReduceScatter)>("ncclReduceScatter");
  decltype(ncclAllGather)* all_gather = library.function<decltype(ncclAllGather)>("ncclAllGather");
  decltype(ncclBroadcast)* broadcast = library.function<decltype(ncclBroadcast)>("ncclBroadcast");
  decltype(ncclSend)* send = library.function<decltype(ncclSend)>("ncclSend");
  decltype(ncclRecv)* receive = library.function<decltype(ncclRecv)>("ncclRecv");
  decltype(ncclGroupStart)* group_start =
      library.function<decltype(ncclGroupStart)>("ncclGroupStart");
  decltype(ncclGroupEnd)* group_end = library.function<decltype(ncclGroupEnd)>("ncclGroupEnd");
};

/// One for the process. DeviceError when it is missing or too old.
const NcclLibrary& nccl();

}  // namespace verlcpp::cuda
