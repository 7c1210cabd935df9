import { useServer } from './support/server.ts';

const server = useServer();
const manifest = (spec: object, metadata: object = {}) =>
  JSON.stringify(server().widget('cli', spec, metadata));

it('applies, changes what has changed, and says so', async () => {
  const apply = async (spec: object) =>
    (await server().kubectl(['apply', '-f', '-'], manifest(spec))).stdout.trim();
  const name = `widget.${server().widgetGroup}/cli`;
  expect(await apply({ size: 7, label: 'abc' })).toBe(`${name} created`);
  expect(await apply({ size: 7, label: 'abc' })).toBe(`${name} unchanged`);
  expect(await apply({ size: 8 })).toBe(`${name} configured`);
  const { body } = await server().get(server().widgets('cli'));
  expect(body.spec).toMatchObject({ size: 8 });
  expect(body.spec).not.toHaveProperty('label');
});

it('finds mistakes before they are stored', async () => {
  const { code, stderr } = await server().kubectl(
    ['apply', '-f', '-'],
    JSON.stringify(server().widget('wrong', { bogus: 1 })),
  );
  expect(code).toBe(1);
  expect(stderr).toContain('unknown field "spec.bogus"');
});

it('shows the columns', async () => {
  await server().post(server().widgets(), server().widget('shown', { color: 'blue', size: 9 }));
  const { stdout } = await server().kubectl(['get', `widgets.${server().widgetGroup}`, 'shown']);
  expect(stdout.split('\n').map((line) => line.split(/ +/).slice(0, 3))).toEqual([
    ['NAME', 'COLOR', 'SIZE'],
    ['shown', 'blue', '9'],
    [''],
  ]);
});

it('scales, labels, waits and deletes', async () => {
  const kind = `widgets.${server().widgetGroup}`;
  await server().post(server().widgets(), server().widget('worked'));
  expect((await server().kubectl(['scale', kind, 'worked', '--replicas=3'])).stdout).toContain(
    'worked scaled',
  );
  expect((await server().kubectl(['label', kind, 'worked', 'a=b'])).stdout).toContain(
    'worked labeled',
  );
  expect(
    (
      await server().kubectl([
        'wait',
        kind,
        'worked',
        '--for=jsonpath={.spec.replicas}=3',
        '--timeout=10s',
      ])
    ).stdout,
  ).toContain('condition met');
  expect((await server().kubectl(['delete', kind, '-l', 'a=b'])).stdout).toContain(
    '"worked" deleted',
  );
});

it('explains', async () => {
  const { stdout } = await server().kubectl([
    'explain',
    `widgets.spec.size`,
    `--api-version=${server().widgetGroup}/v1`,
  ]);
  expect(stdout).toMatch(/FIELD: size <integer>/);
});
