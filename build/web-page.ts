import { readdirSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { build, type BuildOptions, type Metafile, type Plugin } from 'esbuild';

const parts = 'src/web/parts';
const workers = 'src/web/workers';
const main = 'src/web/main.tsx';

/** Scripts in the form that browsers run, without source maps: the container image has them. */
const common = {
  bundle: true,
  format: 'iife',
  target: ['chrome123', 'firefox120', 'safari17.5'],
  minify: true,
  logLevel: 'warning',
} as const satisfies BuildOptions;

/** The modules of a bundle, absolute. */
const modulesOf = ({ inputs }: Metafile): ReadonlySet<string> =>
  new Set(Object.keys(inputs).map((path) => resolve(path)));

/**
 * Makes a part take each module that the main script has from there, so that both have one and the
 * same state. Notes these modules.
 */
function takeFromMain(ofMain: ReadonlySet<string>, taken: Set<string>): Plugin {
  const self = {};
  return {
    name: 'take-from-main',
    setup(bundle) {
      bundle.onResolve({ filter: /./ }, async ({ path, pluginData, ...rest }) => {
        if (pluginData === self || rest.kind === 'entry-point') return undefined;
        const found = await bundle.resolve(path, { ...rest, pluginData: self });
        if (!ofMain.has(found.path)) return undefined;
        taken.add(found.path);
        // The ending makes it CommonJS, whose names need not be known here.
        return { path: `${relative('.', found.path)}.cjs`, namespace: 'main' };
      });
      bundle.onLoad({ filter: /./, namespace: 'main' }, ({ path }) => ({
        contents: `module.exports = conversationPage.shared[${JSON.stringify(path.replace(/\.cjs$/, ''))}];`,
      }));
    },
  };
}

/**
 * A module before the main one: the modules that the parts take from the main script, as values of a
 * global variable. A page may need a part at its first render.
 */
function offerToParts(taken: ReadonlySet<string>): Plugin {
  const paths = [...taken].map((path) => relative('.', path)).sort();
  const shared = paths.map((path, index) => `${JSON.stringify(path)}: m${index}`);
  const contents = [
    ...paths.map((path, index) => `import * as m${index} from './${path}';`),
    `globalThis.conversationPage = { parts: {}, shared: { ${shared.join(', ')} } };`,
  ].join('\n');
  return {
    name: 'offer-to-parts',
    setup(bundle) {
      bundle.onResolve({ filter: /^offer-to-parts$/ }, ({ path }) => ({ path, namespace: 'page' }));
      bundle.onLoad({ filter: /./, namespace: 'page' }, () => ({ contents, resolveDir: '.' }));
    },
  };
}

/**
 * Builds the script and the style of the pages, and one script for each file of `src/web/parts` and
 * `src/web/workers`, which a page loads when it is needed. A browser gets these as classic scripts: the policy of the
 * pages permits scripts by their hash, and browsers don't check those of imported modules alike.
 */
export async function buildPages(outdir: string): Promise<void> {
  const { metafile } = await build({
    ...common,
    entryPoints: [main],
    metafile: true,
    write: false,
  });
  const ofMain = modulesOf(metafile);
  const taken = new Set<string>();
  for (const file of readdirSync(parts)) {
    const name = file.replace(/\.tsx?$/, '');
    await build({
      ...common,
      entryPoints: { [name]: join(parts, file) },
      outdir: join(outdir, 'parts'),
      globalName: `conversationPage.parts.${name}`,
      plugins: [takeFromMain(ofMain, taken)],
    });
  }
  // A worker has nothing of the page.
  for (const file of readdirSync(workers))
    await build({ ...common, entryPoints: [join(workers, file)], outdir: join(outdir, 'parts') });
  await build({
    ...common,
    stdin: { contents: `import 'offer-to-parts';\nimport './${main}';`, resolveDir: '.' },
    outfile: join(outdir, 'app.js'),
    plugins: [offerToParts(taken)],
  });
  await build({ ...common, entryPoints: { styles: 'src/web/styles.css' }, outdir });
}
