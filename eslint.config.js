import eslint from '@eslint/js';
import { importX } from 'eslint-plugin-import-x';
import tseslint from 'typescript-eslint';

// The floors of docs/architecture.md: imports only run down, and the wings of one floor do not know each other.
const floors = [
  ['src/main.ts'],
  ['src/commands'],
  ['src/gateway', 'src/controllers', 'src/embedded'],
  ['src/kube'],
  ['src/resources', 'src/quota', 'src/agent', 'src/observability', 'src/config'],
];
const zones = floors
  .flatMap((wings, floor) =>
    wings.map((wing) => ({
      target: `./${wing}`,
      from: [...floors.slice(0, floor).flat(), ...(floor === 2 ? wings.filter((other) => other !== wing) : [])].map((path) => `./${path}`),
      message: 'imports only run down (docs/architecture.md, "Five floors")',
    })),
  )
  .filter(({ from }) => from.length > 0);

export default tseslint.config(
  { ignores: ['dist/', 'node_modules/', '.data/', '.cache/', 'artifacts/'] },
  eslint.configs.recommended,
  tseslint.configs.strictTypeChecked,
  {
    languageOptions: {
      parserOptions: { projectService: { allowDefaultProject: ['eslint.config.js'] }, tsconfigRootDir: import.meta.dirname },
    },
    plugins: { 'import-x': importX },
    settings: {
      'import-x/parsers': { '@typescript-eslint/parser': ['.ts'] },
      'import-x/resolver': { node: { extensions: ['.ts', '.js'] } },
    },
    rules: {
      '@typescript-eslint/no-unused-vars': ['error', { ignoreRestSiblings: true, varsIgnorePattern: '^_' }],
      'import-x/no-cycle': ['error', { ignoreExternal: true }],
      'import-x/no-restricted-paths': ['error', { zones }],
      'import-x/no-default-export': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true, allowBoolean: true }],
    },
  },
  {
    files: ['eslint.config.js', '**/jest.config.ts', 'test/support/*-reporter.ts', 'test/e2e/support/{setup,teardown,sequencer}.ts'],
    rules: { 'import-x/no-default-export': 'off' },
  },
  { files: ['eslint.config.js'], ...tseslint.configs.disableTypeChecked },
);
