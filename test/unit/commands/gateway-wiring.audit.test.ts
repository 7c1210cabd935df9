import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { auditOf } from '../../../src/commands/gateway-wiring.ts';
import { auditLogOf } from '../../../src/commands/process.ts';
import { readGatewayConfig } from '../../../src/config/cluster.ts';
import { createMetrics } from '../../../src/observability/metrics.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const folder = mkdtempSync(join(tmpdir(), 'audit-'));
afterAll(() => rmSync(folder, { recursive: true }));

const auditAt = (path: string) =>
  auditOf(readGatewayConfig({ MASTER_KEY_FILES: 'unused', LOG_LEVEL: 'error', AUDIT_FILE: path }), {
    clock: new VirtualClock(),
    metrics: createMetrics(),
  });

it.each(['error', 'info'] as const)('the audit log is in the log at the level %s', (LOG_LEVEL) => {
  expect(auditLogOf({ LOG_LEVEL }).enabled('info')).toBe(true);
});

describe('the audit log of AUDIT_FILE', () => {
  it('is in that file at every level of the log', () => {
    const path = join(folder, 'audit.jsonl');
    const line = { requestId: 'r', client: '192.0.2.1', owner: 'alice', key: 'key-1' };
    auditAt(path)('KeyRevoked', { ...line, revoked: 'key-2', revokedOf: 'alice' });
    expect(JSON.parse(readFileSync(path, 'utf8'))).toMatchObject({
      level: 'info',
      message: 'KeyRevoked',
      component: 'audit',
      ...line,
    });
  });

  it('lets no gateway start that could not write it', () => {
    const path = join(folder, 'none', 'audit.jsonl');
    expect(() => auditAt(path)).toThrow(`AUDIT_FILE: ${path} can't be written: Error: ENOENT`);
  });
});
