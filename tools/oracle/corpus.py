"""The small corpus that the toy tokenizer is trained on: written for this project, no other source."""

import itertools
import random

SUBJECTS = """a cat|a small dog|two white cats|the old fisherman|a red fox|an orange kitten|a panda|a young woman in a blue coat|a man with a beard|
three children|a robot|a paper boat|a steam train|a lighthouse|a hot air balloon|a flock of birds|a school of fish|a horse|an owl|a cup of coffee|
a glass of water|a candle|a wooden cabin|a yellow taxi|a bicycle|an astronaut|a dancer|a painter|a jellyfish|a snowman""".replace("\n", "").split("|")
ACTIONS = """walks on the grass|runs along the beach|sits by the window|jumps over a fence|turns slowly to the camera|looks up at the sky|
floats above the mountains|moves through heavy rain|stands in a field of flowers|plays with a ball|swims in clear water|drifts down the river|
opens its eyes|waves and smiles|melts in the sun|glows in the dark|drives through the city at night|sails across a calm sea|dances under a street lamp|
disappears into the fog|spins around|falls into the snow|climbs a ladder|reads a book|drinks tea|sleeps on a chair""".replace("\n", "").split("|")
STYLES = """close-up shot|wide shot, golden hour|slow motion, shallow depth of field|cinematic lighting, film grain|in the style of a watercolour painting|
black and white, 35 mm film|aerial view, drone footage|time lapse|soft focus, warm colours|high contrast, neon lights|stop motion animation|
hand-held camera, natural light|low angle, dramatic clouds|macro photography|4k, highly detailed|the camera pans left|the camera slowly zooms in""".replace("\n", "").split("|")
WORDS = """morning evening midnight sunrise sunset twilight winter spring summer autumn thunder lightning storm breeze cloud rainbow horizon valley canyon desert island harbour
village castle palace temple bridge tunnel railway station market kitchen library museum theatre garden forest meadow jungle swamp glacier volcano waterfall fountain
mountain hill cliff cave shore ocean lake pond stream puddle mirror shadow reflection silhouette candlelight lantern firework bonfire smoke steam dust ash ember flame
tiger lion elephant giraffe zebra monkey gorilla rabbit squirrel hedgehog beaver otter seal dolphin octopus turtle crab lobster butterfly dragonfly bee spider ant snail
eagle falcon sparrow pigeon penguin flamingo peacock parrot chicken rooster duck goose swan cow sheep goat pig donkey camel wolf bear deer moose dragon unicorn
boy girl woman child baby grandmother soldier knight princess queen king wizard witch pirate sailor pilot driver doctor nurse teacher student chef baker farmer gardener
singer guitarist drummer violinist pianist orchestra crowd family couple friend stranger
bread butter cheese apple banana cherry lemon orange strawberry chocolate cake pancake noodles soup pizza salad coffee juice bottle plate spoon knife table lamp mirror sofa
shirt dress jacket trousers shoes boots hat scarf gloves umbrella backpack suitcase necklace watch glasses camera telephone computer keyboard screen engine wheel rocket satellite
beautiful bright gentle graceful elegant ancient modern futuristic mysterious peaceful joyful gloomy colourful transparent metallic wooden golden silver crimson purple turquoise
quickly slowly softly suddenly carefully gracefully silently brightly together forever between beneath beyond against toward without within around
running jumping flying swimming walking dancing singing laughing crying sleeping cooking painting writing building breaking exploding burning freezing growing blooming
photograph portrait landscape animation cartoon sketch documentary trailer commercial background foreground perspective exposure resolution composition symmetry texture detail""".split()
OTHERS = """Bright tones, overexposed, static, blurred details, subtitles, low quality, ugly, deformed, extra fingers, messy background.
The light of the early morning falls through the leaves and draws moving shapes on the stone floor.
Behind the glass, snow falls without a sound; inside, the kettle begins to sing.
Waves roll in, one after another, and the wet sand mirrors an orange sky.
What does the world look like from the back of a whale? Nobody knows!
It's 7:45 p.m., the shop is closed, and "tomorrow" is written on the door (in chalk).
Un chat marche sur l'herbe, près de la forêt, en été. Où est le garçon? Là-bas, derrière l'église.
Eine kleine Katze läuft über die grüne Wiese. Ein Mädchen hört die Vögel im schönen Wald.
Un gato camina sobre la hierba en la montaña. El niño sueña con un pingüino.
Кошка идёт по траве. Снег падает на старый город, и река блестит под луной.
一只猫在草地上走。夕阳下的海边,一个小女孩在放风筝。下雪的山,安静的湖。
猫が草の上を歩く。夜の東京、雨の中のネオン。
قطة تمشي على العشب. رجل يقرأ كتابا تحت الشجرة.
แมวเดินบนหญ้า ฝนตกในเมือง เด็กเล่นน้ำ
고양이가 풀밭 위를 걷는다. 바다 위의 달.
1 2 3 4 5 6 7 8 9 0 16:9 24 fps 1280x720 50% & + = # @ / _ * ~ < > [ ] { } $ ^ | \\ ` é è ü ñ ç å ø""".split("\n")


def sentences():
    """About 1,500 lines, always the same ones in the same order."""
    rng = random.Random(7)
    lines = [f"{s} {a}, {t}." for s, a, t in itertools.product(SUBJECTS, ACTIONS, STYLES)]
    lines = rng.sample(lines, 1200)
    lines += [" ".join(rng.sample(WORDS, 12)) for _ in range(150)]
    lines += [line[0].upper() + line[1:] for line in rng.sample(lines, 100)]
    return lines + OTHERS * 12
