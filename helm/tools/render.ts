import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { helmPath, type HelmVersion } from './binaries.ts';

const run = promisify(execFile);
export const chartFolder = fileURLToPath(new URL('../conversation-operator', import.meta.url));

/** Helm must not find the person's own settings, nor a cluster. */
const environment = {
  PATH: process.env['PATH'],
  HOME: '/nonexistent',
  KUBECONFIG: '/nonexistent/kubeconfig',
  // A run is over before its memory matters.
  GOGC: 'off',
};

/** Runs Helm to its end. Rejects with what it wrote to standard error. */
export async function helm(
  version: HelmVersion,
  args: readonly string[],
  input = '',
): Promise<string> {
  const child = run(helmPath(version), [...args], {
    env: environment,
    maxBuffer: 64 * 1024 * 1024,
  });
  child.child.stdin?.end(input);
  return (await child).stdout;
}

export interface RenderOptions {
  readonly release?: string;
  readonly namespace?: string;
  readonly values?: object;
  /** API versions of the cluster in addition to those of Kubernetes. */
  readonly apiVersions?: readonly string[];
}

/** Output of `helm template`. */
export const renderChart = (version: HelmVersion, options: RenderOptions = {}): Promise<string> => {
  const {
    release = 'conversation-operator',
    namespace = 'agents',
    values = {},
    apiVersions = [],
  } = options;
  const extra = apiVersions.flatMap((each) => ['--api-versions', each]);
  return helm(
    version,
    [
      'template',
      release,
      chartFolder,
      '--namespace',
      namespace,
      '--kube-version',
      '1.34.0',
      '--values',
      '-',
      ...extra,
    ],
    JSON.stringify(values),
  );
};
