import * as z from 'zod/mini';
import { parseJson } from './json.ts';

export const maxMcpServers = 32;
const maxNameCharacters = 200;

const text = z.string().check(z.minLength(1));
const nameAndValue = z.object({ name: text, value: z.string() });
const remoteServer = {
  name: text,
  url: z.string().check(z.regex(/^https?:\/\//)),
  headers: z._default(z.array(nameAndValue), []),
};
/** MCP servers as in the Agent Client Protocol. Absent `headers`, `args` and `env` are empty. */
export const mcpServerList = z
  .array(
    z.union([
      z.object({ type: z.literal('http'), ...remoteServer }),
      z.object({ type: z.literal('sse'), ...remoteServer }),
      z.strictObject({
        name: text,
        command: text,
        args: z._default(z.array(z.string()), []),
        env: z._default(z.array(nameAndValue), []),
      }),
    ]),
  )
  .check(z.maxLength(maxMcpServers));
export type McpServer = z.output<typeof mcpServerList>[number];

const isEnabled = z.nullish(z.boolean());
/** Header names and values that Node accepts. An invalid header would fail each request. */
export const httpHeaders = z.record(
  z.string().check(z.regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/)),
  z.string().check(z.regex(/^[\t\x20-\x7e\x80-\xff]*$/)),
);
const variables = z.record(
  z.string().check(z.regex(/^[A-Za-z_][A-Za-z0-9_]*$/)),
  z.string().check(z.regex(/^[^\0]*$/)),
);
const configuredServer = z.union([
  z.object({
    url: z.string().check(z.regex(/^https?:\/\//)),
    transport: z.nullish(z.enum(['http', 'streamable-http', 'sse'])),
    headers: z.nullish(httpHeaders),
    enabled: isEnabled,
  }),
  z.object({
    command: z.string().check(z.regex(/^[^\0]+$/)),
    args: z.nullish(z.array(z.string().check(z.regex(/^[^\0]*$/)))),
    env: z.nullish(variables),
    enabled: isEnabled,
  }),
]);

/** MCP servers by name, in the format of the OpenHands protocol. */
export const mcpConfig = z
  .record(z.string().check(z.minLength(1), z.maxLength(maxNameCharacters)), configuredServer)
  .check(
    z.refine((servers) => Object.keys(servers).length <= maxMcpServers, {
      error: `at most ${maxMcpServers} MCP servers are allowed`,
    }),
  );

/** Returns the enabled servers of a request, in order. */
export const mcpServersOf = (config: z.output<typeof mcpConfig>): readonly McpServer[] =>
  Object.entries(config).flatMap(([name, server]): readonly McpServer[] => {
    if (server.enabled === false) return [];
    if ('command' in server) {
      const { command, args, env } = server;
      return [{ name, command, args: args ?? [], env: pairsOf(env) }];
    }
    const type = server.transport === 'sse' ? 'sse' : 'http';
    return [{ type, name, url: server.url, headers: pairsOf(server.headers) }];
  });

const pairsOf = (values: Readonly<Record<string, string>> | null | undefined) =>
  Object.entries(values ?? {}).map(([name, value]) => ({ name, value }));

/** Reads the stored servers of a conversation; none if the text is unreadable. */
export const storedMcpServers = (json: string | undefined): readonly McpServer[] =>
  mcpServerList.safeParse(parseJson(json ?? '')).data ?? [];

/**
 * Returns the servers of a session: those of the environment, then those of the conversation with
 * other names. `skipped` names the servers that the agent cannot use. `able` has the agent's
 * transports in addition to standard input; it is false if the agent starts no server.
 */
export function sessionServersOf(
  ofEnvironment: readonly McpServer[],
  ofConversation: readonly McpServer[],
  able: { readonly http?: boolean | undefined; readonly sse?: boolean | undefined } | false,
): { readonly servers: readonly McpServer[]; readonly skipped: readonly string[] } {
  const names = new Set(ofEnvironment.map(({ name }) => name));
  const own = ofConversation.filter(({ name }) => !names.has(name));
  if (able === false)
    return { servers: [], skipped: [...ofEnvironment, ...own].map(({ name }) => name) };
  const canUse = (server: McpServer) => !('type' in server) || able[server.type] === true;
  return {
    servers: [...ofEnvironment, ...own.filter(canUse)],
    skipped: own.filter((server) => !canUse(server)).map(({ name }) => name),
  };
}
