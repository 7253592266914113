"""What is compared, and what has to be reached."""

from dataclasses import dataclass

RESNET18_CIFAR_PARAMETERS = 11_173_962


@dataclass(frozen=True)
class Goal:
    """`kind` is "ratio" (peer's time / ours, at least), "ns" (per operation, at most) or
    "bandwidth" (share of the in-place memory bandwidth measured in the same run, at least)."""

    kind: str
    value: float

    def __str__(self):
        return {
            "ratio": f"{self.value:g}x",
            "ns": f"< {self.value:g} ns",
            "bandwidth": f"{self.value:.0%} of bandwidth",
        }[self.kind]


@dataclass(frozen=True)
class Figure:
    """One row of the table: a field of the JSON and its goal."""

    key: str = "median_ms"
    label: str = ""
    goal: Goal | None = None

    @property
    def unit(self):
        return self.key[-2:]


@dataclass(frozen=True)
class Case:
    """One run on each side. `mode` is None for works that know no mode, `images` says whether the
    memory layout matters, `cores` how many threads must really have run at once: the CPU time
    over wall time of an undisturbed run is near that."""

    work: str
    mode: str | None = None
    batch: int | None = None
    figures: tuple = (Figure(),)
    images: bool = False
    cores: int = 2
    step_bytes: int = 0  # moved by one step, for works bound by memory
    restriction: str = ""
    variables: tuple = ()  # (name, value) of both sides' environment, for the restriction

    @property
    def name(self):
        words = [self.work, self.mode, self.batch and f"batch {self.batch}", self.restriction]
        return " ".join(word for word in words if word)

    def arguments(self):
        """The arguments that `facula bench` and the peer have in common."""
        mode = [f"--{self.mode}"] if self.mode else []
        batch = ["--batch", str(self.batch)] if self.batch else []
        return [self.work, *mode, *batch, "--json"]


def _ratio(value):
    return (Figure(goal=Goal("ratio", value)),)


def _optimizer(work, bytes_per_parameter):
    # Per parameter: SGD with momentum reads three floats and writes two, Adam reads four, writes
    # three.
    return Case(
        work,
        figures=(Figure(goal=Goal("bandwidth", 0.85)),),
        step_bytes=bytes_per_parameter * RESNET18_CIFAR_PARAMETERS,
    )


CASES = (
    Case("resnet18-cifar", "train", 128, _ratio(2.2), images=True),
    Case("resnet18-cifar", "train", 128, _ratio(1.1), images=True,
         restriction="direct convolution", variables=(("FACULA_WINOGRAD", "0"),)),
    Case("resnet18-cifar", "train", 128, _ratio(1.6), images=True,
         restriction="AVX2", variables=(("FACULA_CPU_CAPABILITY", "avx2"),)),
    Case("vgg11-cifar", "train", 128, _ratio(1.8), images=True),
    Case("mobilenetv2-cifar", "train", 128, _ratio(1.5), images=True),
    Case("resnet18-224", "train", 32, _ratio(1.7), images=True),
    # A good implementation may run so small a network on one core.
    Case("net", "train", 32, _ratio(2), images=True, cores=1),
    Case("net", "train", 4, _ratio(3), images=True, cores=1),
    Case("mnist-cnn", "train", 64, _ratio(2.2), images=True),
    Case("mlp-sgd", "train", 128, _ratio(1.3)),
    Case("mlp-adam", "train", 128, _ratio(1.6)),
    Case("resnet18-cifar", "infer", 128, _ratio(2.3), images=True),
    Case("vgg11-cifar", "infer", 128, images=True),
    Case("mobilenetv2-cifar", "infer", 128, images=True),
    Case("resnet18-224", "infer", 32, _ratio(1.8), images=True),
    Case("net", "infer", 32, images=True, cores=1),
    Case("net", "infer", 4, images=True, cores=1),
    Case("mnist-cnn", "infer", 64, images=True),
    Case("mlp-sgd", "infer", 128),
    _optimizer("sgd-step", 20),
    _optimizer("adam-step", 28),
    _optimizer("adamw-step", 28),
    Case("eager-add", figures=(Figure("median_ns", goal=Goal("ns", 40)),), cores=1),
    Case(
        "autograd-chain",
        figures=(
            Figure("forward_ns", "forward", Goal("ns", 60)),
            Figure("backward_ns", "backward", Goal("ns", 80)),
        ),
        cores=1,
    ),
    Case(
        "autograd-rows",
        figures=(Figure("forward_ns", "forward"), Figure("backward_ns", "backward")),
        cores=1,
    ),
)
