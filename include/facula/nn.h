// Neural network modules, their functional forms, initial values and losses.
#pragma once

#include <facula/nn/containers.h>
#include <facula/nn/functional.h>
#include <facula/nn/init.h>
#include <facula/nn/layers.h>
#include <facula/nn/loss.h>
#include <facula/nn/module.h>
#include <facula/nn/utils.h>
