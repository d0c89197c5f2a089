// Checks the explorer's JavaScript in development: `make lint-js`. Users and tests need neither this nor Node.
import js from "@eslint/js";
import globals from "globals";

export default [
  js.configs.recommended,
  {
    files: ["src/wane/explorer/page/*.js"],
    languageOptions: { globals: globals.browser, sourceType: "module" },
    rules: {
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-new-func": "error",
      "no-var": "error",
      "prefer-const": "error",
      eqeqeq: "error",
      "no-shadow": "error",
      "max-lines": ["error", 400],
      "max-lines-per-function": ["error", { max: 40, skipComments: true }],
    },
  },
];
