import { chmodSync, cpSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { build, type BuildOptions, type Plugin } from 'esbuild';
import { buildPages } from './build/web-page.ts';
import { addWebUi } from './build/web-ui.ts';

/**
 * The client library's modules only define things, but don't say so, and a bundler has to keep what
 * might do more: 5 MB of models of which nothing is used. Its kubeconfig loader is all that is
 * imported of it.
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

/**
 * Shell programs are files beside the modules that read them. The bundle holds their text in place
 * of the call that reads the file.
 */
const shellPrograms: Plugin = {
  name: 'shell-programs',
  setup(bundle) {
    const read = /readFileSync\(new URL\('(.+\.sh)', import\.meta\.url\), 'utf8'\)/g;
    const textOf = (from: string, path: string) =>
      JSON.stringify(readFileSync(join(dirname(from), path), 'utf8'));
    bundle.onLoad({ filter: /[/\\](src|packages)[/\\].*\.ts$/ }, ({ path: from }) => {
      const contents = readFileSync(from, 'utf8').replace(read, (_call, path: string) =>
        textOf(from, path),
      );
      if (contents.includes(".sh', import.meta.url"))
        throw new Error(`${from} reads a shell program in another form`);
      return { contents, loader: 'ts' };
    });
  },
};

const outdir = process.argv[2] ?? 'dist';
rmSync(outdir, { recursive: true, force: true });
const common: BuildOptions = {
  outdir,
  bundle: true,
  platform: 'node',
  target: 'node24',
  format: 'esm',
  splitting: true,
  // Names stay, so that stacks and logs can be read.
  minifyWhitespace: true,
  minifySyntax: true,
  lineLimit: 200,
  legalComments: 'external',
  logLevel: 'warning',
  plugins: [leanClientLibrary, shellPrograms],
  // Some dependencies are CommonJS and ask for Node's own modules.
  banner: {
    js: "import{createRequire as makeRequire}from'node:module';const require=makeRequire(import.meta.url);",
  },
};
// The container image of the operator and the gateway has `main.js` and `chunks`, that of the
// reference agent the files of its name.
const { metafile } = await build({
  ...common,
  entryPoints: { main: 'src/main.ts', up: 'src/commands/up.ts' },
  chunkNames: 'chunks/[name]-[hash]',
  metafile: true,
});
await build({
  ...common,
  entryPoints: { 'reference-agent': 'packages/reference-agent/src/main.ts' },
  chunkNames: 'reference-agent/[name]-[hash]',
});
// The plugin of kubectl is one file that needs nothing beside it.
const plugin = join(outdir, 'kubectl-conversations.js');
const { metafile: pluginFile } = await build({
  ...common,
  entryPoints: { 'kubectl-conversations': 'src/kubectl-conversations.ts' },
  splitting: false,
  // An older Node reads the whole file before the check of its version.
  target: 'node18',
  legalComments: 'eof',
  metafile: true,
});
chmodSync(plugin, 0o755);
const notInImage = /^packages\/(local-cluster|agent-server|reference-agent)\//;
for (const [output, { inputs }] of Object.entries(metafile.outputs)) {
  const input = Object.keys(inputs).find((name) => notInImage.test(name));
  if (input !== undefined && relative(outdir, output) !== 'up.js')
    throw new Error(`${output} has ${input}, which does not belong into the container image`);
}
const outside = Object.values(pluginFile.outputs)
  .flatMap(({ imports }) => imports)
  .find(({ path, external }) => external !== true || !isBuiltin(path));
if (outside !== undefined) throw new Error(`${plugin} needs ${outside.path}`);
// An older Node has to reach the check of `main.js`: that file loads nothing else before the check,
// except for the helpers of the bundler.
const entry = Object.entries(metafile.outputs).find(
  ([output]) => relative(outdir, output) === 'main.js',
);
for (const { path, kind } of entry?.[1].imports ?? [])
  if (kind === 'import-statement' && Object.keys(metafile.outputs[path]?.inputs ?? {}).length > 0)
    throw new Error(`main.js loads ${path} before it has checked the version of Node`);
await buildPages(`${outdir}/web`);
// Pinned packages of the OpenHands agent, which `up` installs.
cpSync('images/openhands-constraints.txt', `${outdir}/openhands-constraints.txt`);
// The official web UI, which the gateway serves on its own origin.
const web = `${outdir}/ui`;
if (process.env['UI'] === 'false' || process.env['UI'] === '0') mkdirSync(web);
else
  addWebUi(web, { cache: '.cache/web-ui' }, (sentence) => {
    process.stderr.write(`${sentence}\n`);
  });
