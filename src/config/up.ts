import { join } from 'node:path';
import { z } from 'zod';
import { acpAgentNames } from '../resources/acp-settings.ts';
import { modelBaseUrl, isModelName } from '../resources/agent-settings.ts';
import { archiveConfigOf, archiveSettings, checkArchive, type ArchiveConfig } from './archive.ts';
import { checkGithubApp, serving } from './serving.ts';
import { maxPoolReplicas } from '../resources/sandbox-pool.ts';
import {
  defaultDataDir,
  flag,
  numberFrom,
  oneOf,
  operating,
  port,
  readEnvironment,
  shared,
  someOf,
} from './environment.ts';

/** Agents that this machine can run. Except for `reference`, they are installed before use. */
const agentNames = ['reference', 'openhands', ...acpAgentNames] as const;
export type LocalAgentName = (typeof agentNames)[number];

const schema = z.object({
  ...shared,
  ...operating,
  ...serving,
  ...archiveSettings,
  /** No limit by default, because all clients on one machine have the same address. */
  MAX_CONNECTIONS_PER_ADDRESS: serving.MAX_CONNECTIONS_PER_ADDRESS.unwrap().default(0),
  PORT: port().default(3000),
  /** Port of the local API server. Default: the port of the last run, if it is free. */
  API_PORT: port().default(0),
  METRICS_PORT: port().default(0),
  DATA_DIR: z.string().default(defaultDataDir),
  /** Whether there is an archive. Its default location is a folder in the data folder. */
  ARCHIVE: flag(true),
  /** Agent of conversations that name no template. Default: the reference agent. */
  AGENT: oneOf(...agentNames).optional(),
  /** Several agents, each with a template. Conversations without a template use the first agent. */
  AGENTS: someOf(...agentNames),
  /** Number of warm sandboxes whose agents already run. Default: that of the last run, or 0. */
  WARM: numberFrom({ from: 0, to: maxPoolReplicas }).optional(),
  /** Folder of installed agents; by default in the data folder. */
  AGENTS_DIR: z.string().optional(),
  /** Name of the model for the agents of the default template. */
  LLM_MODEL: z
    .string()
    .refine(
      isModelName,
      'must be the name of a model like openai/gpt-5, without a URL and white space',
    )
    .optional(),
  /** URL of any OpenAI-compatible service, for the agents of the default template. */
  LLM_BASE_URL: modelBaseUrl().optional(),
  /** API key of the model. The operator passes the key per conversation, not in the environment. */
  LLM_API_KEY: z.string().optional(),
  /** Owner of the first API key. */
  OWNER: z.string().default('local'),
});

/** Names of the settings, each of which docs/local.md describes. */
export const upSettings: readonly string[] = Object.keys(schema.shape);

export type UpConfig = z.output<typeof schema>;

const checked = schema
  .superRefine(checkGithubApp)
  .superRefine(checkArchive)
  .refine(({ AGENT, AGENTS }) => AGENT === undefined || AGENTS.length === 0, {
    path: ['AGENTS'],
    message:
      "can't be combined with AGENT; the first agent of AGENTS is that of starts that name no template",
  });

export const readUpConfig = (environment: NodeJS.ProcessEnv): UpConfig =>
  readEnvironment(checked, environment);

/** Returns the agents in the settings, each once. The first one is the default. */
export function agentsOf({
  AGENT = 'reference',
  AGENTS: [first = AGENT, ...others],
}: Pick<UpConfig, 'AGENT' | 'AGENTS'>): readonly [LocalAgentName, ...LocalAgentName[]] {
  return [first, ...new Set(others.filter((name) => name !== first))];
}

/** Returns the archive of `up`, by default a folder in the data folder. */
export const upArchiveOf = (config: UpConfig): ArchiveConfig =>
  config.ARCHIVE ? archiveConfigOf(config, join(config.DATA_DIR, 'archive')) : undefined;
