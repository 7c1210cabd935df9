import { delimiter, join } from 'node:path';
import { acpVendors, type AcpVendor } from '@conversation-operator/agent-server/acp/vendors';
import type { NewObject } from '@conversation-operator/kube/object';
import type { ImageProgram } from '@conversation-operator/local-cluster/kubelet/options';
import type { AcpAgentName } from '../resources/acp-settings.ts';
import { apiVersion } from '../resources/group.ts';
import { sandboxTemplates, type SandboxTemplate } from '../resources/sandbox-template.ts';
import { defaultIdleTimeout } from './initial-objects.ts';
import { installInto, runInstaller } from './installer.ts';

export interface AcpInstallOptions {
  /** Folder of all installed agents, each version in a folder of its own. */
  readonly folder: string;
  readonly environment: NodeJS.ProcessEnv;
  readonly signal: AbortSignal;
}

/**
 * Returns the folder with the program of the pinned package of an agent, which npm installs unless
 * it exists, without running scripts of packages. Throws `CommandError`, or rejects with the
 * signal's reason.
 */
export async function installAcpAgent(
  name: AcpAgentName,
  { folder, environment, signal }: AcpInstallOptions,
): Promise<string> {
  const vendor: AcpVendor = acpVendors[name];
  const { package: packageName, version, command, programFolder = '.bin' } = vendor;
  const home = join(folder, `${name}-${version}`);
  const programs = join(
    home,
    'node_modules',
    programFolder.replace('{platform}', process.platform).replace('{arch}', process.arch),
  );
  await installInto(home, join(programs, command[0]), (attempt) =>
    runInstaller(
      [
        ...(['npm', 'install', '--prefix', attempt, '--ignore-scripts', '--no-audit'] as const),
        ...['--no-fund', '--no-package-lock', `${packageName}@${version}`],
      ],
      {
        agent: `the agent ${name}`,
        environment,
        signal,
        missing: 'npm, which is not on the PATH',
      },
    ),
  );
  return programs;
}

/** Image name of an agent on the local cluster. */
export const acpImage = (name: AcpAgentName): string => `conversation-operator/acp-${name}`;

/** The bridge to an agent as a program of the embedded node. */
export const acpProgram = (
  bridge: ImageProgram,
  programs: string,
  { PATH = '' }: NodeJS.ProcessEnv,
): ImageProgram => ({
  ...bridge,
  env: { ...bridge.env, PATH: [programs, PATH].join(delimiter) },
});

/**
 * Initial template for an agent on this machine. Later starts keep the changes of users, except the
 * model of the environment.
 */
export const acpTemplate = (namespace: string, name: AcpAgentName): NewObject<SandboxTemplate> => {
  const { package: packageName, version, license } = acpVendors[name];
  return {
    apiVersion,
    kind: sandboxTemplates.kind,
    metadata: { name, namespace },
    spec: {
      displayName: name,
      description: `${packageName} ${version} (${license}), with the model of LLM_MODEL, LLM_BASE_URL and LLM_API_KEY.`,
      podTemplate: {
        spec: {
          containers: [
            {
              name: 'agent',
              image: acpImage(name),
              resources: { requests: { cpu: '200m', memory: '512Mi' }, limits: { memory: '4Gi' } },
            },
          ],
        },
      },
      agent: {
        ...{ kind: 'acp', port: 8000, workingDir: '/workspace' },
        acp: { agent: name, allowAlways: false },
      },
      storage: { size: '10Gi', retain: false },
      idleTimeout: defaultIdleTimeout,
      startDeadline: '3m',
    },
  };
};
