// Data sets, transforms and the loader.
#pragma once

#include <facula/data/data_loader.h>
#include <facula/data/dataset.h>
#include <facula/data/image.h>
#include <facula/data/sample.h>
#include <facula/data/sampler.h>
#include <facula/data/transforms.h>
