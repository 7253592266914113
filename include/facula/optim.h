// Optimizers, learning-rate schedules and gradient clipping.
#pragma once

#include <facula/nn/utils.h>
#include <facula/optim/lr_scheduler.h>
#include <facula/optim/optimizer.h>
