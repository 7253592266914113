// Everything, for programs that prefer one include over the compile time they save by naming what
// they use.
#pragma once

#include <facula/autograd.h>
#include <facula/backends.h>
#include <facula/call.h>
#include <facula/checkpoint.h>
#include <facula/data.h>
#include <facula/dlpack.h>
#include <facula/hub.h>
#include <facula/json_line.h>
#include <facula/memory.h>
#include <facula/model_file.h>
#include <facula/models.h>
#include <facula/nn.h>
#include <facula/npy.h>
#include <facula/optim.h>
#include <facula/parallel.h>
#include <facula/safetensors.h>
#include <facula/state_dict.h>
#include <facula/system.h>
#include <facula/tensor.h>
#include <facula/torch_file.h>
#include <facula/train.h>
#include <facula/version.h>
