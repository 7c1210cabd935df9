import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { z } from 'zod';
import { auditKinds } from '../../../src/observability/audit.ts';

const docs = readFileSync(join(import.meta.dirname, '../../../docs/security.md'), 'utf8');
/** Fields of every line of a request, of which the text above the list speaks. */
const common = ['requestId', 'client', 'owner', 'key', 'person', 'session', 'serviceAccount'];
const kinds = Object.entries(auditKinds);

describe('a kind of line of the audit log', () => {
  it.each(kinds)('%s says who, what, from where and in which request', (name, { schema, when }) => {
    const fields: readonly [string, z.ZodType][] = Object.entries(schema.shape);
    const required = fields
      .filter(([, field]) => !field.safeParse(undefined).success)
      .map(([field]) => field);
    expect(when).not.toBe('');
    // A controller has no request: the handover leads to it. Nobody knows who is refused.
    const isOfOperator = name === 'HandoverDone' || name === 'HandoverRefused';
    expect(required).toEqual(
      expect.arrayContaining(isOfOperator ? ['by', 'handover'] : ['requestId', 'client']),
    );
    const who = required.filter((field) => ['owner', 'by', 'share'].includes(field));
    if (name !== 'Refused' && name !== 'SignInRefused') expect(who).not.toEqual([]);
    expect(fields.length).toBeGreaterThan(3);
  });

  it('is in the list of docs/security.md, with its fields', () => {
    const section = docs.slice(docs.indexOf('## Audit'), docs.indexOf('## Keys'));
    const rows = [...section.matchAll(/^- `.*(?:\n .*)*/gm)].map(([row]) =>
      row.replaceAll(/\s+/g, ' '),
    );
    expect(rows).toEqual(
      kinds.map(([name, { schema, when }]) => {
        const own = Object.keys(schema.shape).filter((field) => !common.includes(field));
        return `- \`${name}\`, ${when}: ${own.map((field) => `\`${field}\``).join(', ')}`;
      }),
    );
  });
});
