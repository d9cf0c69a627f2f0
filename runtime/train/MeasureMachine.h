//===- MeasureMachine.h - How fast this machine is --------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_TRAIN_MEASUREMACHINE_H
#define RUNTIME_TRAIN_MEASUREMACHINE_H

#include "runtime/program.h"

#include <string>

namespace harmony::runtime {

/// What the cost model reads, as JSON (one object), measured with what
/// executables run on: the product library on one thread a call, workers,
/// copies of another thread beside them. Keys: "device" and "library" and, with
/// threads > 0 (which compute),
///   launch_s                one launch
///   products                [rows, columns, depth, FLOP/s of a worker] of one
///                           call on operands in caches, all workers computing
///   memory                  [bytes, bytes/s of all workers] of a kernel that
///                           touches so many, a third of them from afar
///   operations_per_s        elementwise f32, all workers
///   update_bytes_per_s      read and written by adamw, all workers
///   copy_in_bytes_per_s, copy_out_bytes_per_s, copy_both_bytes_per_s
///                           a copy beside computing workers; two at once
///   copy_s                  the least copy, by a thread that is woken up for it
/// Each is the lower quartile of rounds spread over all the time. Takes about
/// 15 s. Throws NoDevice without the instruction set.
std::string measureMachine(HmIsa isa, unsigned threads);

} // namespace harmony::runtime

#endif // RUNTIME_TRAIN_MEASUREMACHINE_H
