/**
 * Refuses circles of imports, also those of types alone. The floors of docs/architecture.md are in
 * eslint.config.js.
 */
export default {
  forbidden: [
    { name: 'no-circle', severity: 'error', from: {}, to: { circular: true } },
    {
      name: 'no-circle-of-folders',
      severity: 'error',
      scope: 'folder',
      from: { path: '^(src/(gateway|controllers)|packages/http/src)/' },
      to: { circular: true },
    },
    {
      name: 'pages-know-the-wire-alone',
      comment:
        'Pages, and the sentences that they share with the kubectl plugin, run in browsers: of the service they import types of records and problems, the values that docs/reasons.md and REST share with them, and the table of events.',
      severity: 'error',
      from: { path: '^src/(web|sentences)/' },
      to: {
        path: '^(src|packages)/',
        pathNot:
          '^src/(web/|sentences/|agent/event-kinds\\.ts$|resources/(handover-effects|owner-remedies|start-task-id)\\.ts$)',
        dependencyTypesNot: ['type-only'],
      },
    },
    {
      name: 'sentences-know-no-page',
      severity: 'error',
      from: { path: '^src/sentences/' },
      to: { path: '^src/web/' },
    },
    {
      name: 'pages-are-a-bundle',
      comment: 'The gateway serves the bundle of the pages, and imports none of their modules.',
      severity: 'error',
      from: { path: '^(src|packages)/', pathNot: '^src/web/' },
      to: { path: '^src/web/' },
    },
    {
      name: 'models-and-budgets-are-pure',
      comment: 'Prices, usage and budgets are decisions without I/O, below the gateway.',
      severity: 'error',
      from: { path: '^src/(models|budget)/' },
      to: { path: '^(src|packages)/', pathNot: '^(src/(models|budget|resources)|packages/base)/' },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules/(?!@conversation-operator)' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: { exportsFields: ['exports'] },
  },
};
