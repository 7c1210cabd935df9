import eslint from '@eslint/js';
import { createNodeResolver, importX } from 'eslint-plugin-import-x';
import tseslint from 'typescript-eslint';

// The floors of docs/architecture.md: imports only run down, and the rooms of one floor do not know
// each other.
const floors = [
  ['src/main.ts', 'src/program.ts', 'src/kubectl-conversations.ts'],
  ['src/commands', 'src/plugin'],
  ['src/gateway', 'src/controllers', 'packages/local-cluster', 'packages/reference-agent'],
  ['packages/agent-server'],
  [
    ...['src/resources', 'src/status', 'src/quota', 'src/agent', 'src/archive', 'src/budget'],
    ...['src/observability', 'src/config'],
  ],
  ['packages/git', 'packages/http', 'packages/kube', 'packages/object-store'],
  ['packages/outward'],
  ['packages/base'],
];
// The packages know nothing of the product. Apart from the local cluster and its agents, they are
// the floors below it.
const product = floors.flat().filter((room) => room.startsWith('src/'));
const zones = floors.flatMap((rooms, floor) =>
  rooms.map((room) => ({
    target: `./${room}`,
    from: [
      ...new Set([
        ...floors.slice(0, floor).flat(),
        ...([2, 5].includes(floor) ? rooms.filter((other) => other !== room) : []),
        ...(room.startsWith('packages/') ? product : []),
      ]),
    ].map((path) => `./${path}`),
    message: 'imports only run down (docs/architecture.md, "Rooms")',
  })),
);
// The API server, agents and the callback server are inside: no proxy is between.
const inside = ['packages/kube', 'packages/http', 'src/agent', 'src/controllers'].map((room) => ({
  target: `./${room}`,
  from: './packages/outward',
  message: 'hosts inside the cluster are called directly',
}));
const agents = ['src/gateway', 'src/controllers', 'packages/local-cluster'].map((room) => ({
  target: `./${room}`,
  from: './packages/agent-server',
  message: 'agents are called over HTTP',
}));
const throughDoors = {
  group: ['**/packages/**'],
  message: 'a package is imported by its name, through what its package.json exports',
};
const spreadOfLiteral = {
  selector: 'ObjectExpression > SpreadElement > ObjectExpression',
  message: 'a property is written in the object itself, not in one that is spread into it',
};
const shellProgram = (selector) => ({
  selector,
  message: 'a shell program is a .sh file beside its user, which shellcheck reads',
});

// The rules that need types are those of .oxlintrc.json, which take a quarter of the time there.
export default tseslint.config(
  { ignores: ['dist/', 'node_modules/', '.data/', '.cache/', 'artifacts/'] },
  eslint.configs.recommended,
  tseslint.configs.strict,
  {
    plugins: { 'import-x': importX },
    settings: {
      'import-x/parsers': { '@typescript-eslint/parser': ['.ts', '.tsx'] },
      'import-x/resolver-next': [createNodeResolver({ extensions: ['.ts', '.tsx', '.js'] })],
    },
    rules: {
      '@typescript-eslint/no-unused-vars': [
        'error',
        { ignoreRestSiblings: true, varsIgnorePattern: '^_' },
      ],
      'import-x/no-restricted-paths': [
        'error',
        { zones: [...zones.filter(({ from }) => from.length > 0), ...inside, ...agents] },
      ],
      'import-x/no-default-export': 'error',
      '@typescript-eslint/consistent-type-imports': 'error',
      'no-restricted-syntax': ['error', spreadOfLiteral],
    },
  },
  {
    files: ['src/**', 'packages/**'],
    rules: {
      'no-restricted-imports': ['error', { patterns: [throughDoors] }],
      'no-restricted-syntax': [
        'error',
        spreadOfLiteral,
        ...['Literal[value=/^#!|^set -[eu]/m]', 'TemplateElement[value.raw=/^#!|^set -[eu]/m]'].map(
          shellProgram,
        ),
      ],
    },
  },
  {
    files: [
      'packages/{git,object-store}/src/**',
      'src/{gateway/git,gateway/pull-requests,commands}/**',
    ],
    rules: {
      'no-restricted-imports': [
        'error',
        {
          patterns: [throughDoors],
          paths: [
            {
              name: 'undici',
              importNames: ['Agent', 'Client', 'EnvHttpProxyAgent', 'Pool', 'ProxyAgent'],
              message: 'hosts outside are called by packages/outward',
            },
          ],
        },
      ],
    },
  },
  {
    files: ['src/web/**'],
    rules: {
      'no-restricted-syntax': [
        'error',
        spreadOfLiteral,
        ...[
          'MemberExpression[property.name=/^(inner|outer)HTML$|^insertAdjacentHTML$/]',
          'JSXAttribute[name.name="dangerouslySetInnerHTML"]',
        ].map((selector) => ({
          selector,
          message: 'texts of agents and owners are text nodes, never markup',
        })),
      ],
    },
  },
  {
    files: [
      '*.js',
      '**/jest.config.ts',
      'test/support/{*-environment,*-reporter,sequencer}.ts',
      'test/mutants/mutating-transformer.ts',
      'test/e2e/support/{setup,teardown,sequencer}.ts',
    ],
    rules: { 'import-x/no-default-export': 'off' },
  },
);
