import { cpSync, rmSync } from 'node:fs';
import { build, type Plugin } from 'esbuild';

/**
 * The client library's modules only define things, but don't say so, and a bundler has to keep what might do more: 5 MB of models of
 * which nothing is used. Its kubeconfig loader is all that is imported of it.
 */
const leanClientLibrary: Plugin = {
  name: 'lean-client-library',
  setup(bundle) {
    bundle.onResolve({ filter: /./ }, async ({ path, pluginData, ...rest }) => {
      if (pluginData === leanClientLibrary || rest.kind === 'entry-point') return undefined;
      if (!/@kubernetes[/\\]client-node/.test(`${rest.importer} ${path}`)) return undefined;
      const found = await bundle.resolve(path, { ...rest, pluginData: leanClientLibrary });
      return { ...found, sideEffects: false };
    });
  },
};

const outdir = process.argv[2] ?? 'dist';
rmSync(outdir, { recursive: true, force: true });
await build({
  entryPoints: { main: 'src/main.ts', 'reference-agent': 'src/agent/reference/main.ts' },
  outdir,
  bundle: true,
  platform: 'node',
  target: 'node24',
  format: 'esm',
  splitting: true,
  chunkNames: 'chunks/[name]-[hash]',
  // Names stay, so that stacks and logs can be read.
  minifyWhitespace: true,
  minifySyntax: true,
  lineLimit: 200,
  legalComments: 'external',
  logLevel: 'warning',
  plugins: [leanClientLibrary],
  // Some dependencies are CommonJS and ask for Node's own modules.
  banner: { js: "import{createRequire as makeRequire}from'node:module';const require=makeRequire(import.meta.url);" },
});
// What `up` installs the OpenHands agent by.
cpSync('images/openhands-constraints.txt', `${outdir}/openhands-constraints.txt`);
