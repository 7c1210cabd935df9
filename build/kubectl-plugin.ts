import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'yaml';

const executable = 'kubectl-conversations';
/** kubectl completes the arguments of a plugin by a program of this name. */
const completer = 'kubectl_complete-conversations';
/** kubectl takes each file whose name begins like the executable for a plugin. */
export const archiveName = 'conversations-plugin.tar.gz';

interface KrewOptions {
  readonly version: string;
  /** URL of the archive in the release. */
  readonly uri: string;
  readonly archive: Buffer;
}

/**
 * The manifest of the plugin for krew. One archive is for all systems that run a script by its first
 * line, which Windows does not.
 */
export const krewManifest = ({ version, uri, archive }: KrewOptions): object => ({
  apiVersion: 'krew.googlecontainertools.github.com/v1alpha2',
  kind: 'Plugin',
  metadata: { name: 'conversations' },
  spec: {
    version: `v${version}`,
    shortDescription: 'Start, follow and explain agents in sandboxes',
    description:
      'Starts conversations of conversation-operator, lists them, explains why one waits or has failed, sends messages, and answers the questions of agents, with the rights of the kubeconfig.',
    caveats: 'Needs Node.js 24 or newer as `node` in PATH.\n',
    platforms: [
      {
        selector: {
          matchExpressions: [{ key: 'os', operator: 'In', values: ['darwin', 'linux'] }],
        },
        uri,
        sha256: createHash('sha256').update(archive).digest('hex'),
        bin: executable,
        files: [
          { from: executable, to: '.' },
          { from: 'LICENSE', to: '.' },
        ],
      },
    ],
  },
});

/** The package by which npm installs the executable, under both of its names. */
function npmPackage(): object {
  const { version, license, engines } = JSON.parse(readFileSync('package.json', 'utf8')) as {
    readonly version: string;
    readonly license: string;
    readonly engines: object;
  };
  const bin = { [executable]: executable, [completer]: executable };
  return { name: executable, version, license, private: true, type: 'module', engines, bin };
}

/** Writes the executable and its archive, the same bytes each time. Returns the archive's path. */
export function packPlugin(built: string, folder: string): string {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  copyFileSync(join(built, `${executable}.js`), join(folder, executable));
  chmodSync(join(folder, executable), 0o755);
  symlinkSync(executable, join(folder, completer));
  copyFileSync('LICENSE', join(folder, 'LICENSE'));
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(npmPackage(), undefined, 2)}\n`);
  const owner = ['--owner=0', '--group=0', '--numeric-owner', '--mtime=@0', '--mode=u=rwX,go=rX'];
  const tar = execFileSync('tar', ['-C', folder, ...owner, '-cf', '-', executable, 'LICENSE'], {
    maxBuffer: 64 * 1024 * 1024,
  });
  const archive = join(folder, archiveName);
  writeFileSync(
    archive,
    execFileSync('gzip', ['-n9'], { input: tar, maxBuffer: 64 * 1024 * 1024 }),
  );
  return archive;
}

if (import.meta.main) {
  const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
  const folder = 'dist/kubectl-plugin';
  const archive = packPlugin('dist', folder);
  process.stdout.write(`${join(folder, executable)}\n${archive}\n`);
  const release = process.env['RELEASE_URL'];
  if (release !== undefined && release !== '') {
    const uri = `${release.replace(/\/+$/, '')}/${archiveName}`;
    const manifest = join(folder, 'conversations.yaml');
    const text = stringify(krewManifest({ version, uri, archive: readFileSync(archive) }));
    writeFileSync(manifest, text);
    process.stdout.write(`${manifest}\n`);
  }
}
