import * as z from 'zod/mini';
import { parseJson } from '../json.ts';
import { mcpServerList, type McpServer } from '../mcp-servers.ts';
import { booleanOf, SettingsError } from '../settings.ts';

export interface AcpSettings {
  readonly vendor: AcpVendor;
  /** Whether people may choose the options `…_always`, which also apply to later calls. */
  readonly allowAlways: boolean;
  readonly mcpServers: readonly McpServer[];
  /** Mode of a session that asks before tool calls; undefined for `modes.asks` of the vendor. */
  readonly mode: string | undefined;
  /** Variables of the agent's process. Commands that the server runs do not get them. */
  readonly env: Readonly<Record<string, string>>;
}

/** Parses the variables `ACP_…`; undefined if they name no agent. Throws SettingsError. */
export function acpSettingsOf(
  env: Readonly<Record<string, string | undefined>>,
): AcpSettings | undefined {
  const vendor = acpVendorOf(env);
  if (vendor === undefined) return undefined;
  const mode = env['ACP_MODE'] ?? '';
  return {
    vendor,
    allowAlways: booleanOf('ACP_ALLOW_ALWAYS', env['ACP_ALLOW_ALWAYS']),
    mcpServers: jsonOf('ACP_MCP_SERVERS', env, mcpServerList, 'a JSON list of MCP servers') ?? [],
    mode: mode === '' ? undefined : mode,
    env: jsonOf('ACP_ENV', env, environment, 'a JSON object of texts') ?? {},
  };
}

function jsonOf<T>(
  name: string,
  env: Readonly<Record<string, string | undefined>>,
  type: z.ZodMiniType<T>,
  words: string,
): T | undefined {
  const text = env[name] ?? '';
  if (text === '') return undefined;
  const parsed = type.safeParse(parseJson(text));
  if (parsed.success) return parsed.data;
  // The error message omits the value, which may contain secrets.
  const [issue] = parsed.error.issues;
  const place = issue?.path.join('.') ?? '';
  throw new SettingsError(
    `${name} must be ${words}${place === '' ? '' : `; the value at ${place} is invalid`}`,
  );
}

/** Returns the agent that `ACP_AGENT` or `ACP_COMMAND` names. Throws SettingsError if invalid. */
export function acpVendorOf(
  env: Readonly<Record<string, string | undefined>>,
): AcpVendor | undefined {
  const { ACP_AGENT: name = '', ACP_COMMAND: text = '' } = env;
  if (text !== '') {
    const command = commandLine.safeParse(parseJson(text));
    if (!command.success)
      throw new SettingsError('ACP_COMMAND must be a JSON list of texts, the program first');
    const [program = '', ...args] = command.data;
    return {
      package: '',
      version: '',
      license: '',
      command: [program, ...args],
      env: {},
      continues: 'resume',
    };
  }
  if (name === '') return undefined;
  const vendor = Object.entries(acpVendors).find(([known]) => known === name)?.[1];
  if (vendor === undefined)
    throw new SettingsError(`ACP_AGENT must be one of ${Object.keys(acpVendors).join(', ')}`);
  return vendor;
}

const environment = z.record(z.string().check(z.regex(/^[A-Za-z_][A-Za-z0-9_]*$/)), z.string());

const commandLine = z.array(z.string()).check(z.minLength(1));

/**
 * How a new process continues the last session: `resume` without a replay of the messages, `load`
 * with one. `transcript`: the agent stores no session, so the first prompt repeats the messages.
 */
export type Continuation = 'resume' | 'load' | 'transcript';

/** Settings of the model. Only the environment and files of the agent's process contain them. */
export interface AcpModel {
  /** Undefined: the agent chooses a model. */
  readonly name: string | undefined;
  /** Undefined: the default URL of the vendor's program. */
  readonly baseUrl: string | undefined;
  readonly apiKey: string | undefined;
}

/**
 * How one ACP agent differs from the others. Texts of `args`, `env` and `files` may contain
 * `{model}`, `{baseUrl}`, `{apiKey}`, `{workingDir}` and `{home}`. A text with an absent setting is
 * omitted.
 */
export interface AcpVendor {
  readonly package: string;
  readonly version: string;
  /** SPDX expression, or the vendor's own words for a license that is not open source. */
  readonly license: string;
  readonly command: readonly [program: string, ...args: readonly string[]];
  /**
   * Folder of the program below node_modules. The package's install scripts would copy the program
   * from there, but they do not run. `{platform}` and `{arch}` are those of Node.
   */
  readonly programFolder?: string;
  readonly env: Readonly<Record<string, string>>;
  /** Files below HOME, by path, for settings that the program reads only from files. */
  readonly files?: Readonly<Record<string, string>>;
  /** Method for `authenticate`, which the program requires before any session. */
  readonly authMethod?: string;
  /** Modes of a session: one that asks before each tool call, and one that never asks. */
  readonly modes?: { readonly asks?: string; readonly free?: string };
  readonly continues: Continuation;
  /**
   * Additions for a session that asks before tool calls. Without them, files of the repository,
   * such as `.claude/settings.json`, could allow tools, start programs before any permission
   * request, and send the model's key elsewhere. Undefined if the agent reads no such file.
   * The chapter "Settings of a repository" of docs/agents.md lists the limits.
   */
  readonly asking?: {
    readonly args?: readonly string[];
    readonly env?: Readonly<Record<string, string>>;
    readonly files?: Readonly<Record<string, string>>;
    /** Field `_meta` of the ACP requests that open a session. */
    readonly meta?: Readonly<Record<string, unknown>>;
    /** Working folder of the session; default `{workingDir}`. */
    readonly folder?: string;
    /** False: the agent starts no MCP server in an untrusted folder. */
    readonly mcpServers?: false;
  };
}

/** Known ACP agents. `{baseUrl}` includes the path of an OpenAI-compatible API, such as `/v1`. */
export const acpVendors = {
  codex: {
    package: '@agentclientprotocol/codex-acp',
    version: '2.6.0',
    license: 'Apache-2.0',
    command: ['codex-acp'],
    env: { OPENAI_API_KEY: '{apiKey}' },
    files: {
      '.codex/config.toml': [
        'model = "{model}"',
        'model_provider = "configured"',
        // A search runs at the provider, which bills it apart from the tokens.
        'web_search = "disabled"',
        '[model_providers.configured]',
        'name = "configured"',
        'base_url = "{baseUrl}"',
        'wire_api = "responses"',
        'env_key = "OPENAI_API_KEY"',
        '',
      ].join('\n'),
    },
    modes: { asks: 'read-only', free: 'agent-full-access' },
    continues: 'resume',
    asking: {
      // The adapter stores this path as trusted. Codex looks up the normalized path, without the
      // dot at the end, and so does not trust the folder.
      folder: '{workingDir}/.',
    },
  },
  claude: {
    package: '@agentclientprotocol/claude-agent-acp',
    version: '0.101.0',
    license: 'Apache-2.0, with the proprietary SDK of its vendor',
    command: ['claude-agent-acp'],
    env: {
      ANTHROPIC_API_KEY: '{apiKey}',
      ANTHROPIC_BASE_URL: '{baseUrl}',
      ANTHROPIC_MODEL: '{model}',
      // Without this variable the program refuses to run as root in a mode that never asks.
      IS_SANDBOX: '1',
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      DISABLE_AUTOUPDATER: '1',
    },
    modes: { asks: 'default', free: 'bypassPermissions' },
    continues: 'resume',
    asking: {
      // The repository's instructions still apply, although its settings do not.
      files: { '.claude/CLAUDE.md': '@{workingDir}/CLAUDE.md\n' },
      meta: {
        claudeCode: {
          options: {
            settingSources: ['user'],
            strictMcpConfig: true,
            managedSettings: {
              allowManagedPermissionRulesOnly: true,
              allowManagedHooksOnly: true,
              sandbox: { autoAllowBashIfSandboxed: false },
            },
          },
        },
      },
    },
  },
  qwen: {
    package: '@qwen-code/qwen-code',
    version: '0.24.4',
    license: 'Apache-2.0',
    command: ['qwen', '--acp', '--auth-type', 'openai'],
    env: { OPENAI_API_KEY: '{apiKey}', OPENAI_BASE_URL: '{baseUrl}', OPENAI_MODEL: '{model}' },
    authMethod: 'openai',
    modes: { asks: 'default', free: 'yolo' },
    continues: 'load',
    asking: {
      // In Qwen Code, a rule to ask precedes every rule to allow, whatever file contains it.
      env: {
        QWEN_CODE_SYSTEM_SETTINGS_PATH: '{home}/.qwen/system.json',
        QWEN_CODE_TRUSTED_FOLDERS_PATH: '{home}/.qwen/trusted.json',
      },
      mcpServers: false,
      files: {
        '.qwen/trusted.json': JSON.stringify({ '{workingDir}': 'DO_NOT_TRUST' }),
        '.qwen/system.json': JSON.stringify({
          permissions: { ask: ['Bash', 'Edit', 'Write', 'WebFetch'] },
          tools: { approvalMode: 'default' },
          disableAllHooks: true,
          security: { folderTrust: { enabled: true } },
        }),
      },
    },
  },
  opencode: {
    package: 'opencode-ai',
    version: '1.18.33',
    license: 'MIT',
    command: ['opencode', 'acp'],
    programFolder: 'opencode-{platform}-{arch}/bin',
    env: { OPENCODE_DISABLE_MODELS_FETCH: '1' },
    files: {
      '.config/opencode/opencode.json': JSON.stringify({
        model: 'configured/{model}',
        provider: {
          configured: {
            npm: '@ai-sdk/openai-compatible',
            name: 'configured',
            options: { baseURL: '{baseUrl}', apiKey: '{apiKey}' },
            models: { '{model}': { name: '{model}' } },
          },
        },
        autoupdate: false,
        permission: { bash: 'ask', edit: 'ask' },
        // The repository's instructions still apply, although its settings do not.
        instructions: ['{workingDir}/AGENTS.md', '{workingDir}/CLAUDE.md'],
      }),
    },
    continues: 'resume',
    asking: { env: { OPENCODE_DISABLE_PROJECT_CONFIG: '1' } },
  },
  gemini: {
    package: '@google/gemini-cli',
    version: '0.61.0',
    license: 'Apache-2.0',
    // Without a model, the program asks another model to choose one.
    command: ['gemini', '--acp', '--model={model}'],
    env: {
      GEMINI_API_KEY: '{apiKey}',
      GOOGLE_GEMINI_BASE_URL: '{baseUrl}',
      GEMINI_CLI_TRUST_WORKSPACE: 'true',
    },
    authMethod: 'gemini-api-key',
    modes: { asks: 'default', free: 'yolo' },
    continues: 'transcript',
    asking: {
      args: ['--admin-policy={home}/.gemini/asks.toml'],
      env: {
        GEMINI_CLI_SYSTEM_SETTINGS_PATH: '{home}/.gemini/system.json',
        GEMINI_CLI_TRUST_WORKSPACE: 'false',
      },
      mcpServers: false,
      files: {
        // In Gemini, an administrator's rule precedes every rule of the repository.
        '.gemini/asks.toml': [
          '[[rule]]',
          'toolName = ["run_shell_command", "write_file", "replace", "web_fetch"]',
          'decision = "ask_user"',
          'priority = 999',
          '',
        ].join('\n'),
        '.gemini/system.json': JSON.stringify({ hooksConfig: { enabled: false } }),
      },
    },
  },
  kimi: {
    package: '@moonshot-ai/kimi-code',
    version: '2.1.0',
    license: 'MIT',
    command: ['kimi', 'acp'],
    env: {
      KIMI_MODEL_NAME: '{model}',
      KIMI_MODEL_BASE_URL: '{baseUrl}',
      KIMI_MODEL_API_KEY: '{apiKey}',
      KIMI_MODEL_PROVIDER_TYPE: 'openai',
      KIMI_CODE_NO_AUTO_UPDATE: '1',
    },
    modes: { asks: 'default', free: 'auto' },
    continues: 'resume',
  },
} as const satisfies Readonly<Record<string, AcpVendor>>;

export type AcpVendorName = keyof typeof acpVendors;

const settingPattern = /\{(model|baseUrl|apiKey|workingDir|home)\}/g;

type Settings = Readonly<Record<string, string | undefined>>;

/** Replaces the names of settings in a text by their values; undefined if a setting is absent. */
function filled(
  text: string,
  settings: Settings,
  written: (value: string) => string = (value) => value,
): string | undefined {
  const names = [...text.matchAll(settingPattern)].map(([, setting = '']) => setting);
  if (names.some((setting) => settings[setting] === undefined)) return undefined;
  return text.replaceAll(settingPattern, (_all, setting: string) =>
    written(settings[setting] ?? ''),
  );
}

/** Escapes a value for strings of JSON and TOML. */
const quoted = (value: string): string => JSON.stringify(value).slice(1, -1);

const filledEntries = (
  texts: Readonly<Record<string, string>>,
  settings: Settings,
  written?: (value: string) => string,
): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(texts).flatMap(([key, text]) => {
      const value = filled(text, settings, written);
      return value === undefined ? [] : [[key, value]];
    }),
  );

export interface SetUp {
  readonly command: readonly string[];
  readonly folder: string;
  readonly env: Readonly<Record<string, string>>;
  readonly files: Readonly<Record<string, string>>;
  readonly meta: Readonly<Record<string, unknown>> | undefined;
  readonly startsMcpServers: boolean;
}

/** Returns how an agent starts. With `asks`, no file of the repository may allow a tool call. */
export function setUpOf(
  {
    command,
    env,
    files = {},
    asking = {},
  }: Pick<AcpVendor, 'command' | 'env' | 'files' | 'asking'>,
  { name: model, baseUrl, apiKey }: AcpModel,
  {
    workingDir,
    home,
    asks,
  }: { readonly workingDir: string; readonly home: string; readonly asks: boolean },
): SetUp {
  const settings = { model, baseUrl, apiKey, workingDir, home };
  const more = asks ? asking : {};
  const args = more.args ?? [];
  return {
    command: [...command, ...args].flatMap((part) => filled(part, settings) ?? []),
    env: filledEntries({ ...env, ...more.env }, settings),
    files: filledEntries({ ...files, ...more.files }, settings, quoted),
    folder: filled(more.folder ?? '{workingDir}', settings) ?? workingDir,
    meta: more.meta,
    startsMcpServers: more.mcpServers !== false,
  };
}
