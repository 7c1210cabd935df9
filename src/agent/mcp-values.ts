import { z } from 'zod';
import type { OwnerMcpServer } from '../resources/owner-settings.ts';
import type { Sealing } from './sealing.ts';

const valuesSchema = z.record(z.string(), z.string());

/**
 * Headers or environment of an MCP server of an owner, by name: secrets. Undefined where the sealed
 * text does not open. Never throws.
 */
export function mcpValuesOf(
  { name, sealed }: Pick<OwnerMcpServer, 'name' | 'sealed'>,
  owner: string,
  sealing: Sealing,
): Readonly<Record<string, string>> | undefined {
  if (sealed === undefined) return {};
  const text = sealing.open(sealed, { scope: 'mcp', owner, name });
  try {
    return text === undefined ? undefined : valuesSchema.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}
