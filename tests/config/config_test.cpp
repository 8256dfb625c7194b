#include <gtest/gtest.h>

#include "config/fields.h"
#include "config/recipes.h"
#include "config/request.h"
#include "config/resources.h"
#include "support/words.h"

namespace zoetrope {
namespace {

ModelInfo a14b() {
  ModelInfo model;
  model.pipeline_class = "WanPipeline", model.source = "wan22";
  model.experts = 2, model.dim = 5120, model.layers = 40, model.in_channels = 16;
  model.boundary_ratio = 0.875, model.folder_flow_shift = 3.0;
  return model;
}

ModelInfo small() {
  ModelInfo model = a14b();
  model.experts = 1, model.dim = 1536, model.layers = 30, model.boundary_ratio.reset();
  return model;
}

// Somebody's own: no row of the table is about it.
ModelInfo own(int experts = 1) {
  ModelInfo model = a14b();
  model.source = "mine", model.experts = experts, model.dim = 256, model.layers = 4;
  model.boundary_ratio.reset(), model.folder_flow_shift = 7.0;
  return model;
}

std::string asked(const ModelInfo& model, const char* field, const char* value) {
  return words([&] {
    Ask ask;
    set(ask, request_field(field), std::string(value));
    resolve(ask, model, 7);
  });
}

TEST(Recipes, GiveTheAuthorsSettings) {
  const Request r = resolve({}, a14b(), 7);
  EXPECT_EQ(r.recipe, "wan2.2-t2v-a14b/original");
  EXPECT_EQ((std::array{r.width, r.height, r.num_frames, r.fps, r.steps}), (std::array{1280, 720, 81, 16, 40}));
  EXPECT_EQ((std::array{r.guidance_scale, r.guidance_scale_2, r.flow_shift, r.boundary_ratio}),
            (std::array{4.0, 3.0, 12.0, 0.875}));
  EXPECT_EQ(r.schedule, "native");
  EXPECT_EQ(r.negative_prompt, resource("prompts/wan_negative.txt"));
  EXPECT_EQ(r.seed, 7u);
}

TEST(Recipes, GiveTheFoldersSettings) {
  Ask ask;
  ask.recipe = "folder";
  const Request r = resolve(ask, a14b(), 7);
  EXPECT_EQ(r.flow_shift, 3.0);
  EXPECT_EQ(r.guidance_scale, 5.0);
  EXPECT_EQ(r.guidance_scale_2, 5.0);
  EXPECT_EQ(r.negative_prompt, "");
  EXPECT_EQ(r.schedule, "diffusers");
}

TEST(Recipes, LetTheSecondScaleFollowTheFirst) {
  Ask ask;
  ask.guidance_scale = 9;
  EXPECT_EQ(resolve(ask, a14b(), 7).guidance_scale_2, 9);
  ask.guidance_scale_2 = 1;
  EXPECT_EQ(resolve(ask, a14b(), 7).guidance_scale_2, 1);
}

TEST(Recipes, TellAnEmptyNegativePromptFromNone) {
  Ask ask;
  ask.negative_prompt = "";
  EXPECT_EQ(resolve(ask, a14b(), 7).negative_prompt, "");
  EXPECT_TRUE(resolve(ask, a14b(), 7).guided());
}

TEST(Recipes, EveryRowIsComplete) {
  for (const Recipe& recipe : read_recipes()) {
    ModelInfo model = a14b();
    model.experts = recipe.match.value("experts", 1);
    model.dim = recipe.match.value("dim", 0), model.layers = recipe.match.value("layers", 0);
    EXPECT_EQ(find_recipe(read_recipes(), model).name, recipe.name);
    if (recipe.original.is_null()) continue;
    for (const char* preset : {"standard", "draft"}) {
      Ask ask;
      ask.preset = preset;
      const Request r = resolve(ask, model, 1);
      EXPECT_TRUE(r.recipe.starts_with(recipe.name)) << r.recipe;
    }
  }
}

// Found by a newcomer: a trained model was called a toy, and its videos were said to be meant as noise.
TEST(Recipes, TakeTheFoldersSettingsForAModelThatNoRowKnows) {
  const Request r = resolve({}, own(), 7);
  EXPECT_EQ(find_recipe(read_recipes(), own()).title, "Wan text-to-video model without a recipe of its own");
  EXPECT_EQ(r.recipe, "wan/folder");
  EXPECT_EQ(r.flow_shift, 7.0);
  EXPECT_EQ(r.schedule, "diffusers");
  EXPECT_EQ(r.negative_prompt, "");
  EXPECT_TRUE(r.warnings.empty());
  EXPECT_EQ(asked(own(), "recipe", "folder"), "no error");
  EXPECT_EQ(asked(own(), "recipe", "original"),
            "recipe: mine has no original settings here (WanPipeline with 1 expert, width 256, 4 layers, 16 latent "
            "channels); leave --recipe out to take those of its folder");
  EXPECT_EQ(asked(own(), "preset", "draft"),
            "preset: mine has no draft settings here (WanPipeline with 1 expert, width 256, 4 layers, 16 latent "
            "channels); leave --preset out and give --size, --num-frames and --steps");
  EXPECT_EQ(asked(own(2), "steps", "3"), "mine: has two experts but no boundary_ratio; give --boundary-ratio");
  EXPECT_EQ(asked(own(2), "boundary_ratio", "0.5"), "no error");
}

TEST(Recipes, SayNothingOfASecondExpertThatIsNotThere) {
  const Json one = to_json(resolve({}, small(), 7)), two = to_json(resolve({}, a14b(), 7));
  for (const char* field : {"guidance_scale_2", "boundary_ratio"}) {
    EXPECT_FALSE(one.contains(field)) << field;
    EXPECT_TRUE(two.contains(field)) << field;
  }
}

TEST(Recipes, WarnOfANegativePromptThatIsNotUsed) {
  Ask ask;
  ask.negative_prompt = "fog", ask.guidance_scale = 1;
  EXPECT_EQ(resolve(ask, small(), 7).warnings,
            std::vector<std::string>{"negative prompt: not used, guidance_scale 1 is 1 or less"});
  ask.guidance_scale = 2;
  EXPECT_TRUE(resolve(ask, small(), 7).warnings.empty());
  ask.negative_prompt.reset(), ask.guidance_scale = 1;  // the recipe's own is nobody's wish
  EXPECT_TRUE(resolve(ask, small(), 7).warnings.empty());
}

TEST(Frames, FollowThePolicy) {
  EXPECT_EQ(words([] { count_frames(80, "exact"); }),
            "num_frames: 80 is not 4k + 1; use 77 or 81, or a frames policy (floor, ceil)");
  EXPECT_EQ(count_frames(81, "exact").compute, 81);
  EXPECT_EQ(count_frames(80, "floor").compute, 77);
  EXPECT_EQ(count_frames(80, "ceil").compute, 81);
  EXPECT_EQ(count_frames(80, "ceil").drop, 1);
  EXPECT_EQ(count_frames(1, "exact").compute, 1);
  EXPECT_EQ(count_frames(2, "floor").compute, 1);
}

TEST(Fields, RefuseBadValuesByTheirWords) {
  EXPECT_EQ(asked(a14b(), "steps", "0"), "steps: 0 is outside 1 to 1000");
  EXPECT_EQ(asked(a14b(), "guidance_scale", "-1"), "guidance_scale: -1 is outside 0 to 100");
  EXPECT_EQ(asked(a14b(), "guidance_scale", "nan"), "guidance_scale: nan is outside 0 to 100");
  EXPECT_EQ(asked(a14b(), "guidance_scale", "100.0001"), "guidance_scale: 100.0001 is outside 0 to 100");
  EXPECT_EQ(asked(a14b(), "seed", "-1"), "seed: \"-1\" is not a whole number of 0 or more");
  EXPECT_EQ(asked(a14b(), "seed", "18446744073709551616"), "seed: 18446744073709551616 is out of range");
  EXPECT_EQ(asked(a14b(), "width", "1281"), "size: width 1281 is not a multiple of 16; use 1280 or 1296");
  EXPECT_EQ(asked(a14b(), "height", "7x"), "height: \"7x\" is not a whole number");
  EXPECT_EQ(asked(a14b(), "schedule", "karras"), "schedule: \"karras\" is not one of diffusers|native");
  EXPECT_EQ(asked(a14b(), "recipe", "original|folder"), "recipe: \"original|folder\" is not one of original|folder");
  EXPECT_EQ(asked(a14b(), "recipe", ""), "recipe: \"\" is not one of original|folder");
  EXPECT_EQ(asked(small(), "boundary_ratio", "0.5"),
            "boundary_ratio: the model has one expert; this belongs to models with two");
  EXPECT_EQ(words([] { request_field("guidance"); }),
            "field \"guidance\" is not known; the nearest known one is \"guidance_scale\"");
  EXPECT_EQ(words([] { request_field("lora"); }), "field \"lora\" is not known");
}

TEST(Fields, TakeJsonToo) {
  Ask ask;
  set(ask, request_field("seed"), Json(18446744073709551615ull));
  EXPECT_EQ(ask.seed, 18446744073709551615ull);
  EXPECT_EQ(words([&] { set(ask, request_field("steps"), Json("4")); }),
            "steps: \"4\" is a string, a number is needed");
  EXPECT_EQ(words([&] { set(ask, request_field("steps"), Json(4.5)); }), "steps: \"4.5\" is not a whole number");
}

}  // namespace
}  // namespace zoetrope
