"""What the clips show and how they are described.

A clip is one or two coloured shapes on a background. Everything is drawn from small tables, so the captions, the
pictures and the checks of `measure.py` share one list of words. A fixed fourteenth of all (colour, shape, size, motion)
combinations is never shown in training, nor are the pairs of objects that the evaluation prompts ask for.
"""
import functools

import numpy as np

COLOURS = {
    "red": (220, 35, 35), "orange": (250, 140, 20), "yellow": (245, 220, 40), "green": (40, 165, 65),
    "cyan": (40, 200, 220), "blue": (45, 85, 225), "purple": (135, 50, 190), "pink": (250, 120, 185),
}
BACKGROUNDS = {
    "white": (245, 245, 245), "gray": (130, 130, 130), "black": (15, 15, 15),
    "cream": (240, 228, 200), "navy": (20, 28, 75), "brown": (85, 62, 45),
}
SHAPES = ["circle", "square", "triangle", "star", "ring", "cross"]
SIZES = ["small", "big"]
MOTIONS = ["left", "right", "up", "down", "clockwise", "counterclockwise", "grow", "shrink", "bounce", "spin"]
DIRECTIONS = MOTIONS[:4]
MOTION_WEIGHTS = np.array([0.14, 0.14, 0.14, 0.14, 0.07, 0.07, 0.08, 0.08, 0.07, 0.07])
RADIUS = {"small": (0.085, 0.11), "big": (0.175, 0.21)}  # of the frame's side

SIZE_WORDS = {"small": ["small", "small", "little", "tiny"], "big": ["big", "big", "large"]}
# (third person, "-ing" form) of each motion
VERBS = {
    "left": [("moves left", "moving left"), ("moves to the left", "moving to the left"), ("slides left", "sliding left")],
    "right": [("moves right", "moving right"), ("moves to the right", "moving to the right"),
              ("slides right", "sliding right")],
    "up": [("moves up", "moving up"), ("rises", "rising"), ("moves upwards", "moving upwards")],
    "down": [("moves down", "moving down"), ("falls", "falling"), ("moves downwards", "moving downwards")],
    "clockwise": [("circles clockwise", "circling clockwise"), ("circles", "circling"),
                  ("moves in a circle", "moving in a circle")],
    "counterclockwise": [("circles counterclockwise", "circling counterclockwise"), ("circles", "circling"),
                         ("moves in a circle", "moving in a circle")],
    "grow": [("grows", "growing"), ("gets bigger", "getting bigger")],
    "shrink": [("shrinks", "shrinking"), ("gets smaller", "getting smaller")],
    "bounce": [("bounces", "bouncing"), ("bounces up and down", "bouncing up and down")],
    "spin": [("spins", "spinning"), ("rotates", "rotating")],
}
TAIL_PLAIN = ["on a {0} background", "over a plain {0} background", "against a {0} background", "on {0}"]
TAIL_GRADIENT = ["on a {0} to {1} gradient background", "over a gradient from {0} to {1}",
                 "against a {0} to {1} gradient"]

COLOUR_NAMES, BACKGROUND_NAMES = list(COLOURS), list(BACKGROUNDS)


def held_out(colour, shape, size, motion):
    """True for the combinations kept for evaluation. Integers or arrays of table indices."""
    return ((3 * colour + 5 * shape + 2 * size + motion + colour * shape) % 7 == 3) & ((colour + shape + motion) % 2 == 0)


def _pair_key(colour, shape, size, motion):
    """One number for the two objects of a scene, whichever comes first; arrays [N, 2] -> [N]."""
    one = ((colour * len(SHAPES) + shape) * 2 + size) * len(MOTIONS) + motion
    return one.min(-1) * 10000 + one.max(-1)


@functools.cache
def _held_out_pairs():
    scenes = scene_of([p["objects"] for p in evaluation_prompts() if len(p["objects"]) == 2], 0)
    return _pair_key(scenes["colour"], scenes["shape"], scenes["size"], scenes["motion"])


def sample_scenes(count, seed, pairs=0.5):
    """`count` scenes as a dict of integer arrays: objects [N], and [N, 2] shape, colour, size, motion; backgrounds.

    pairs: the share of scenes with two objects.
    """
    rng = np.random.default_rng(seed)
    pick = lambda n: rng.integers(0, n, (count, 2))
    scene = dict(objects=1 + (rng.random(count) < pairs).astype(np.int64), shape=pick(len(SHAPES)),
                 colour=pick(len(COLOURS)), size=pick(2),
                 motion=rng.choice(len(MOTIONS), (count, 2), p=MOTION_WEIGHTS),
                 back=pick(len(BACKGROUNDS)), gradient=rng.integers(0, 4, count))  # gradient: 0, 1 plain; 2 down; 3 across
    scene["colour"][:, 1] = (scene["colour"][:, 0] + rng.integers(1, len(COLOURS), count)) % len(COLOURS)
    scene["back"][:, 1] = (scene["back"][:, 0] + rng.integers(1, len(BACKGROUNDS), count)) % len(BACKGROUNDS)
    spin, growth = MOTIONS.index("spin"), [MOTIONS.index("grow"), MOTIONS.index("shrink")]
    round_shape = np.isin(scene["shape"], [SHAPES.index("circle"), SHAPES.index("ring")])
    scene["shape"] = np.where((scene["motion"] == spin) & round_shape, 1 + rng.integers(0, 3, (count, 2)), scene["shape"])
    scene["size"] = np.where(np.isin(scene["motion"], growth), 0, scene["size"])
    for _ in range(8):  # move held-out combinations to the next direction
        bad = held_out(scene["colour"], scene["shape"], scene["size"], scene["motion"])
        scene["motion"] = np.where(bad, rng.integers(0, 4, (count, 2)), scene["motion"])
    scene["motion"] = np.where(held_out(scene["colour"], scene["shape"], scene["size"], scene["motion"]),
                               (scene["motion"] + 1) % 4, scene["motion"])
    key = _pair_key(scene["colour"], scene["shape"], scene["size"], scene["motion"])
    scene["objects"] = np.where(np.isin(key, _held_out_pairs()), 1, scene["objects"])
    return scene


def scene_of(asked, seed):
    """A scene for each list of {colour, shape, size, motion} names, on random backgrounds; as sample_scenes gives them."""
    rng = np.random.default_rng(seed)
    tables = dict(colour=COLOUR_NAMES, shape=SHAPES, size=SIZES, motion=MOTIONS)
    pair = lambda objects: (list(objects) * 2)[:2]
    scene = {k: np.array([[t.index(o[k]) for o in pair(objects)] for objects in asked]) for k, t in tables.items()}
    scene["objects"] = np.array([len(objects) for objects in asked])
    scene["back"] = np.array([rng.permutation(len(BACKGROUNDS))[:2] for _ in asked])
    scene["gradient"] = rng.integers(0, 4, len(asked))
    return scene


def describe_object(scene, i, o, rng, always_size=False):
    """('a small red circle', motion name) of object o of scene i."""
    words = []
    motion = MOTIONS[scene["motion"][i, o]]
    if motion not in ("grow", "shrink") and (always_size or rng.random() > 0.15):
        words.append(rng.choice(SIZE_WORDS[SIZES[scene["size"][i, o]]]))
    words += [COLOUR_NAMES[scene["colour"][i, o]], SHAPES[scene["shape"][i, o]]]
    article = "an" if words[0][0] in "aeiou" else "a"
    return " ".join([article, *words]), motion


def describe_background(scene, i, rng):
    a, b = (BACKGROUND_NAMES[k] for k in scene["back"][i])
    return rng.choice(TAIL_PLAIN if scene["gradient"][i] < 2 else TAIL_GRADIENT).format(a, b)


def tagged_caption(scene, i, rng, always_size=False, always_background=False):
    """One of the phrasings of scene i as its words, and for each word the object (0, 1) it speaks of, else -1."""
    form = rng.integers(0, 4)
    ing = int(form in (1, 3))
    body = []
    for o in range(scene["objects"][i]):
        subject, motion = describe_object(scene, i, o, rng, always_size)
        verbs = VERBS[motion]
        phrase = subject + " " + verbs[rng.integers(0, len(verbs))][ing]
        body += [("and", -1)] * (o > 0) + [(w, o) for w in phrase.split()]
    tail = describe_background(scene, i, rng) if always_background or rng.random() > 0.15 else ""
    plain = lambda text: [(w, -1) for w in text.split()]
    if form == 2 and tail:
        return plain(tail + ",") + body
    return plain("a video of" if form == 3 else "") + body + plain(tail)


def caption(scene, i, rng, **options):
    return " ".join(word for word, _ in tagged_caption(scene, i, rng, **options))


def captions(scene, phrasings, seed):
    """[N][phrasings] tagged captions of all scenes."""
    rng = np.random.default_rng(seed)
    return [[tagged_caption(scene, i, rng) for _ in range(phrasings)] for i in range(len(scene["objects"]))]


def evaluation_prompts(count=60, seed=2024):
    """Held-out prompts with what they ask for. 4 in 5 show one object, a combination never trained on, directions in equal
    parts; 1 in 5 shows two objects that move in different directions, a pair never trained on."""
    rng = np.random.default_rng(seed)
    combos = [(c, s, z, m) for c in range(len(COLOURS)) for s in range(len(SHAPES)) for z in range(2)
              for m in range(len(DIRECTIONS))]
    pick = lambda motion, hidden: (lambda rows: rows[rng.integers(0, len(rows))])(
        [c for c in combos if c[3] == motion and held_out(*c) == hidden])
    directions = [(a, b) for a in range(4) for b in range(4) if a != b]
    prompts = []
    for n in range(count):
        if n % 5 == 4:
            first, second = directions[(n // 5 * 5) % len(directions)]
            chosen = [pick(first, False), pick(second, False)]
            while chosen[1][0] == chosen[0][0]:
                chosen[1] = pick(second, False)
        else:
            chosen = [pick((n - n // 5) % 4, True)]
        asked = [dict(colour=COLOUR_NAMES[c], shape=SHAPES[s], size=SIZES[z], motion=MOTIONS[m]) for c, s, z, m in chosen]
        text = caption(scene_of([asked], seed + n), 0, rng, always_size=True, always_background=True)
        prompts.append(dict(id=n, seed=1000 + n, prompt=text, objects=asked))
    return prompts
