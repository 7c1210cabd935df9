import { z } from 'zod';
import { mcpValuesOf } from '../../agent/mcp-values.ts';
import type { Sealing } from '../../agent/sealing.ts';
import type { OwnerMcpServer } from '../../resources/owner-settings.ts';

/** Text in the place of each value in answers, as the published clients know it. */
export const hiddenValue = '**********';

const hiddenValues = z
  .record(z.string(), z.literal(hiddenValue))
  .nullable()
  .describe('The names, with asterisks for each value; null: none, or none that can be read.');

export const mcpConfigSchema = z.record(
  z.string(),
  z.union([
    z.object({ transport: z.enum(['http', 'sse']), url: z.string(), headers: hiddenValues }),
    z.object({
      ...{ transport: z.literal('stdio'), command: z.string(), args: z.array(z.string()) },
      env: hiddenValues,
    }),
  ]),
);

/** The servers of an owner, without the values of headers and environments. */
export const presentMcpServers = (
  servers: readonly OwnerMcpServer[],
  owner: string,
  sealing: Sealing,
): z.output<typeof mcpConfigSchema> =>
  Object.fromEntries(
    servers.map((server) => {
      const names = Object.keys(mcpValuesOf(server, owner, sealing) ?? {});
      const hidden =
        names.length === 0
          ? null
          : Object.fromEntries(names.map((name) => [name, hiddenValue] as const));
      const { name, type = 'http', url, command = '', args = [] } = server;
      return [
        name,
        url === undefined
          ? { transport: 'stdio' as const, command, args: [...args], env: hidden }
          : { transport: type, url, headers: hidden },
      ];
    }),
  );
