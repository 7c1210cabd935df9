import { undescribed } from '../../lint/descriptions.ts';

it('finds each field without a description, at any depth', () => {
  const fields = { one: { description: 'One.', items: { properties: { two: {} } } }, three: {} };
  expect(undescribed({ properties: fields }, 'Kind')).toEqual(['Kind.one[].two', 'Kind.three']);
});

it('accepts a schema with all descriptions', () => {
  const fields = { one: { description: 'One.', additionalProperties: true } };
  expect(undescribed({ properties: fields }, 'Kind')).toEqual([]);
});
