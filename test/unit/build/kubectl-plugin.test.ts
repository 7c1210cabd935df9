import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { execFileSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { archiveName, krewManifest, packPlugin } from '../../../build/kubectl-plugin.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'plugin-'));
  writeFileSync(
    join(folder, 'kubectl-conversations.js'),
    "#!/usr/bin/env node\nimport { stdout } from 'node:process';\nstdout.write('runs\\n');\n",
  );
});
afterEach(() => rmSync(folder, { recursive: true }));

/** The rules of krew's validation of a manifest (internal/index/validation). */
const safeName = /^[\w-]+$/;
const requirement = z.strictObject({
  key: z.enum(['os', 'arch']),
  operator: z.enum(['In', 'NotIn', 'Exists', 'DoesNotExist']),
  values: z.array(z.string()),
});
const manifestSchema = z.strictObject({
  apiVersion: z.literal('krew.googlecontainertools.github.com/v1alpha2'),
  kind: z.literal('Plugin'),
  metadata: z.strictObject({ name: z.string().regex(safeName) }),
  spec: z.strictObject({
    version: z.string().regex(/^v\d+\.\d+\.\d+$/),
    shortDescription: z.string().min(1).max(50),
    description: z.string().min(1),
    caveats: z.string(),
    homepage: z.url().optional(),
    platforms: z
      .array(
        z.strictObject({
          selector: z.strictObject({ matchExpressions: z.array(requirement).min(1) }),
          uri: z.url({ protocol: /^https$/ }),
          sha256: z.string().regex(/^[a-f0-9]{64}$/),
          bin: z.string().min(1),
          files: z.array(z.strictObject({ from: z.string().min(1), to: z.string().min(1) })).min(1),
        }),
      )
      .min(1),
  }),
});

it('the manifest for krew has its schema, and names what is in the archive', () => {
  const archive = readFileSync(packPlugin(folder, join(folder, 'packed')));
  const uri = `https://git.example/releases/download/v1.2.3/${archiveName}`;
  const manifest = manifestSchema.parse(krewManifest({ version: '1.2.3', uri, archive }));
  const [platform] = manifest.spec.platforms;
  expect(platform?.sha256).toBe(createHash('sha256').update(archive).digest('hex'));
  const inside = execFileSync('tar', ['-tzf', '-'], { input: archive })
    .toString()
    .trim()
    .split('\n');
  expect(platform?.files.map(({ from }) => from)).toEqual(inside);
  expect(inside).toContain(platform?.bin);
});

it('an archive of the same program has the same bytes, and an executable file', () => {
  const [one, other] = ['one', 'other'].map((name) =>
    readFileSync(packPlugin(folder, join(folder, name))),
  );
  expect(one?.equals(other ?? Buffer.alloc(0))).toBe(true);
  const listed = execFileSync('tar', ['-tvzf', '-'], { input: one }).toString();
  expect(listed).toMatch(/^-rwxr-xr-x 0\/0 .* kubectl-conversations$/m);
});

it('npm installs the program under both of its names', () => {
  const packed = join(folder, 'packed');
  packPlugin(folder, packed);
  const flags = ['--offline', '--no-audit', '--no-fund', '--prefix', join(folder, 'global')];
  execFileSync('npm', ['install', '--global', ...flags, packed]);
  for (const name of ['kubectl-conversations', 'kubectl_complete-conversations'])
    expect(execFileSync(join(folder, 'global', 'bin', name), { encoding: 'utf8' })).toBe('runs\n');
});
