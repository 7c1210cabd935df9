import { existsSync, readFileSync } from 'node:fs';
import { join, delimiter } from 'node:path';
import { acpVendors, type AcpVendor } from '@conversation-operator/agent-server/acp/vendors';
import { agentsOf, type LocalAgentName, type UpConfig } from '../config/up.ts';
import type { ImageProgram } from '@conversation-operator/local-cluster/kubelet/options';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { AcpAgentName } from '../resources/acp-settings.ts';
import {
  defaultTemplateName,
  sandboxTemplates,
  type SandboxTemplate,
} from '../resources/sandbox-template.ts';
import { CommandError } from './terminal.ts';
import type { DataFolder } from './data-folder.ts';
import {
  defaultTemplate,
  referenceAgentImage,
  defaultIdleTimeout,
  ensure,
} from './initial-objects.ts';
import { installOpenHands, pinnedVersion, openHandsImage, openHandsProgram } from './openhands.ts';
import { apiVersion } from '../resources/group.ts';
import type { NewObject } from '@conversation-operator/kube/object';
import type { AgentCredentials } from '../agent/credentials.ts';
import { secretLineOf } from './credential-files.ts';
import { namesProvider } from '../resources/agent-settings.ts';
import { installInto, runInstaller } from './installer.ts';

interface AcpInstallOptions {
  /** Folder of all installed agents, with a folder for each version. */
  readonly folder: string;
  readonly environment: NodeJS.ProcessEnv;
  readonly signal: AbortSignal;
}

/**
 * Returns the folder with the program of an agent. If there is none, npm installs the pinned
 * package without running scripts of packages. Throws `CommandError`, or rejects with the reason of
 * the signal.
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
      { agent: `the agent ${name}`, environment, signal, missing: 'npm, which is not on the PATH' },
    ),
  );
  return programs;
}

const acpImage = (name: AcpAgentName): string => `conversation-operator/acp-${name}`;

export const acpProgram = (
  bridge: ImageProgram,
  programs: string,
  { PATH = '' }: NodeJS.ProcessEnv,
): ImageProgram => ({ ...bridge, env: { ...bridge.env, PATH: [programs, PATH].join(delimiter) } });

/** Initial template of a local agent. Later starts update only its model from the environment. */
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
        kind: 'acp',
        port: 8000,
        workingDir: '/workspace',
        acp: { agent: name, allowAlways: false },
      },
      storage: { size: '10Gi', retain: false },
      idleTimeout: defaultIdleTimeout,
      startDeadline: '3m',
    },
  };
};

const openHandsTemplateName = 'openhands';

/** LiteLLM needs the prefix `openai/` for a model at an OpenAI-compatible address. */
function liteLlmModel<T extends LocalModel>(model: T): T {
  const { LLM_MODEL: name, LLM_BASE_URL: baseUrl } = model;
  return name === undefined || baseUrl === undefined || name.includes('/')
    ? model
    : { ...model, LLM_MODEL: `openai/${name}` };
}

/** Initial template of a local OpenHands agent. Later starts update only its model. */
export const openHandsTemplate = (
  namespace: string,
  version: string,
): NewObject<SandboxTemplate> => ({
  apiVersion,
  kind: sandboxTemplates.kind,
  metadata: { name: openHandsTemplateName, namespace },
  spec: {
    displayName: 'OpenHands',
    description: `OpenHands agent-server ${version}, with the model of LLM_MODEL, LLM_BASE_URL and LLM_API_KEY.`,
    podTemplate: {
      spec: {
        // The agent ends within 2 s. A running tool call is interrupted before the pod is deleted.
        terminationGracePeriodSeconds: 10,
        containers: [
          {
            name: 'agent',
            image: openHandsImage,
            resources: { requests: { cpu: '200m', memory: '512Mi' }, limits: { memory: '4Gi' } },
          },
        ],
      },
    },
    // By default the agent also loads its browser tool, but its environment has no browser.
    agent: {
      kind: 'openhands',
      workingDir: '/workspace',
      tools: ['terminal', 'file_editor', 'task_tracker'],
    },
    storage: { size: '10Gi', retain: false },
    idleTimeout: defaultIdleTimeout,
    startDeadline: '3m',
  },
});

export interface LocalAgentsOptions {
  readonly config: LocalModel & Pick<UpConfig, 'AGENT' | 'AGENTS' | 'AGENTS_DIR'>;
  readonly folder: DataFolder;
  /** Folder of the program file and of the reference agent. */
  readonly programFolder: string;
  readonly environment: NodeJS.ProcessEnv;
  readonly signal: AbortSignal;
}

export interface LocalAgents {
  readonly images: Readonly<Record<string, ImageProgram>>;
  /** Template of conversations that name none. */
  readonly templateName: string;
  ensureTemplates(client: KubeClient, namespace: string): Promise<void>;
  /** Text for the person who has started the program, printed after the templates exist. */
  notes(client: KubeClient, namespace: string): Promise<readonly string[]>;
  readonly example: string;
}

/** The first path that exists: beside the bundled program, or in a checkout. */
function fileOf(programFolder: string, paths: readonly string[], what: string): string {
  const file = paths.map((path) => join(programFolder, path)).find((path) => existsSync(path));
  if (file === undefined) throw new CommandError(`${what} is missing in ${programFolder}`);
  return file;
}

function referenceAgent(programFolder: string): Readonly<Record<string, ImageProgram>> {
  const program = fileOf(
    programFolder,
    ['reference-agent.js', '../packages/reference-agent/src/main.ts'],
    'the reference agent',
  );
  return { [referenceAgentImage]: { command: [process.execPath, program] } };
}

/** A local agent. Its template exists in addition to that of the reference agent. */
type LocalAgent = Omit<LocalAgents, 'ensureTemplates'> & {
  ensureTemplate(client: KubeClient, namespace: string): Promise<void>;
};

/** Installs the selected agents that are not installed. Rejects with the reason of the signal. */
export async function localAgents(options: LocalAgentsOptions): Promise<LocalAgents> {
  const reference = referenceAgent(options.programFolder);
  const [name, ...others] = agentsOf(options.config);
  const first = await localAgent(name, options, reference);
  const agents = [first];
  // Agents are installed one after the other, because installers print their progress.
  for (const other of others) agents.push(await localAgent(other, options, reference));
  return {
    // Sandboxes of an earlier start may need the image of the reference agent.
    images: agents.reduce((images, agent) => ({ ...images, ...agent.images }), reference),
    templateName: first.templateName,
    ensureTemplates: async (client, namespace) => {
      await ensure(client, sandboxTemplates, defaultTemplate(namespace));
      for (const agent of agents) await agent.ensureTemplate(client, namespace);
    },
    notes: async (client, namespace) =>
      (await Promise.all(agents.map((agent) => agent.notes(client, namespace)))).flat(),
    example: first.example,
  };
}

function localAgent(
  name: LocalAgentName,
  options: LocalAgentsOptions,
  reference: LocalAgents['images'],
): Promise<LocalAgent> | LocalAgent {
  switch (name) {
    case 'reference':
      return {
        images: reference,
        templateName: defaultTemplateName,
        ensureTemplate: (client, namespace) =>
          useLocalModel(client, namespace, defaultTemplateName, options.config),
        notes: () => Promise.resolve([]),
        example: 'Say hello:\n```sh\necho hello from $(pwd)\n```',
      };
    case 'openhands':
      return openHands(options);
    default:
      return acpAgent(name, options, reference);
  }
}

async function openHands(options: LocalAgentsOptions): Promise<LocalAgent> {
  const { config, folder, programFolder, environment, signal } = options;
  const constraints = fileOf(
    programFolder,
    ['openhands-constraints.txt', '../images/openhands-constraints.txt'],
    'the list of the packages of the OpenHands agent',
  );
  const version = pinnedVersion(readFileSync(constraints, 'utf8'));
  const python = await installOpenHands({
    folder: config.AGENTS_DIR ?? folder.file('agents'),
    constraints,
    environment,
    signal,
  });
  return {
    images: { [openHandsImage]: openHandsProgram(python, folder) },
    templateName: openHandsTemplateName,
    ensureTemplate: async (client, namespace) => {
      await ensure(client, sandboxTemplates, openHandsTemplate(namespace, version));
      await useLocalModel(client, namespace, openHandsTemplateName, liteLlmModel(config));
    },
    notes: (client, namespace) =>
      notesOn(`OpenHands agent-server ${version}`, client, namespace, openHandsTemplateName),
    example: modelExample,
  };
}

/** Runs an agent of the Agent Client Protocol as a child of the reference agent's program. */
async function acpAgent(
  name: AcpAgentName,
  { config, folder, environment, signal }: LocalAgentsOptions,
  reference: LocalAgents['images'],
): Promise<LocalAgent> {
  const programs = await installAcpAgent(name, {
    folder: config.AGENTS_DIR ?? folder.file('agents'),
    environment,
    signal,
  });
  const bridge = reference[referenceAgentImage];
  if (bridge === undefined) throw new Error('the reference agent is always there');
  const { package: packageName, version } = acpVendors[name];
  return {
    images: { [acpImage(name)]: acpProgram(bridge, programs, environment) },
    templateName: name,
    ensureTemplate: async (client, namespace) => {
      await ensure(client, sandboxTemplates, acpTemplate(namespace, name));
      await useLocalModel(client, namespace, name, config);
    },
    notes: (client, namespace) => notesOn(`${packageName} ${version}`, client, namespace, name),
    example: modelExample,
  };
}

const modelExample = 'Write a haiku about operators into haiku.txt, and show the file.';

async function notesOn(
  agent: string,
  client: KubeClient,
  namespace: string,
  templateName: string,
): Promise<readonly string[]> {
  const { spec } = await client.get(sandboxTemplates, namespace, templateName);
  const { model, baseUrl, credential } = spec.agent;
  const place = baseUrl === undefined ? '' : ` at ${baseUrl}`;
  const known = `${model ?? ''}${place}${credential === undefined ? ', without a key' : ''}`;
  return [
    `agent          ${agent}`,
    `model          ${model === undefined ? 'NONE: no conversation can start. Set LLM_MODEL, LLM_API_KEY and, for a service of your own, LLM_BASE_URL, and start again.' : known}`,
  ];
}

const localCredential = 'model';
/**
 * Annotation of a template whose model comes from the environment of the command `up`, and not from
 * a user. The value `bound` means that `up` has also set `allowedModels`.
 */
const fromEnvironment = 'conversation-operator.dev/model-from-environment';

export type LocalModel = Pick<UpConfig, 'LLM_MODEL' | 'LLM_BASE_URL' | 'LLM_API_KEY'>;

/** Adds LLM_API_KEY as key `model` if none is mounted. Throws `CommandError` for an invalid key. */
export function localAgentCredentials(
  { LLM_API_KEY: text }: LocalModel,
  mounted: AgentCredentials,
): AgentCredentials {
  const key = text === undefined ? undefined : secretLineOf(text);
  if (text !== undefined && key === undefined)
    throw new CommandError('LLM_API_KEY: must be one line of printable characters without spaces');
  return {
    of: async (owner, name) =>
      (await mounted.of(owner, name)) ?? (name === localCredential ? key : undefined),
  };
}

/** Sets the model of the environment on a template, or removes that of an earlier start. */
export async function useLocalModel(
  client: KubeClient,
  namespace: string,
  templateName: string,
  model: LocalModel,
): Promise<void> {
  const { LLM_MODEL, LLM_BASE_URL, LLM_API_KEY } = model;
  const isSet = [LLM_MODEL, LLM_BASE_URL, LLM_API_KEY].some((value) => value !== undefined);
  const { metadata, spec } = await client.get(sandboxTemplates, namespace, templateName);
  const before = metadata.annotations?.[fromEnvironment];
  if (!isSet && before === undefined) return;
  // Without LLM_BASE_URL the model's name selects the provider that receives the API key.
  const isBound = LLM_API_KEY !== undefined && LLM_BASE_URL === undefined;
  const allowedModels = isBound
    ? (spec.agent.allowedModels ?? []).filter(namesProvider)
    : before === 'bound'
      ? null
      : undefined;
  await client.mergePatch(sandboxTemplates, namespace, templateName, {
    metadata: { annotations: { [fromEnvironment]: isSet ? (isBound ? 'bound' : 'true') : null } },
    spec: {
      agent: {
        model: LLM_MODEL ?? null,
        baseUrl: LLM_BASE_URL ?? null,
        credential: LLM_API_KEY === undefined ? null : localCredential,
        ...(allowedModels === undefined ? {} : { allowedModels }),
      },
    },
  });
}
