// train_gpt: 3D-parallel training of a GPT with compressed communication.
//   mpirun -n 8 train_gpt --tp 2 --pp 2 --dp 2 --compress.tp_forward topk:fraction=0.1
#include "bench/training/train_program.h"
#include "core/process/main_guard.h"

int main(int argc, char** argv) {
  return thinwire::guarded_main(argc, argv, [](int count, char** values) {
    return thinwire::bench::run_bench(count, values, thinwire::bench::train_program());
  });
}
