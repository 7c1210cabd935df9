import { BlockList, isIPv6 } from 'node:net';
import { z } from 'zod';

export const networkPolicySchema = z.object({
  spec: z.object({
    egress: z.array(
      z.object({
        to: z
          .array(
            z.object({
              ipBlock: z
                .object({ cidr: z.string(), except: z.array(z.string()).default([]) })
                .optional(),
            }),
          )
          .default([]),
        ports: z.array(z.object({ port: z.union([z.number(), z.string()]) })).optional(),
      }),
    ),
  }),
});
type NetworkPolicy = z.output<typeof networkPolicySchema>;

/** Whether a CIDR range holds an address of the same family. */
export function holds(range: string, address: string): boolean {
  const [base = '', bits] = range.split('/');
  if (isIPv6(base) !== isIPv6(address)) return false;
  const family = isIPv6(address) ? 'ipv6' : 'ipv4';
  const list = new BlockList();
  list.addSubnet(base, Number(bits), family);
  return list.check(address, family);
}

/** Ports at which a policy lets pods reach an address outside the cluster; `*` is every port. */
export const openPorts = ({ spec }: NetworkPolicy, address: string): readonly (number | string)[] =>
  spec.egress.flatMap(({ to, ports }) => {
    const blocks = to.flatMap(({ ipBlock }) => ipBlock ?? []);
    // A rule without peers opens every address.
    const reached =
      to.length === 0 ||
      blocks.some(
        ({ cidr, except }) =>
          holds(cidr, address) && !except.some((range) => holds(range, address)),
      );
    return reached ? (ports?.map(({ port }) => port) ?? ['*']) : [];
  });
