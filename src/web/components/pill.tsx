import type { Facts } from '../facts.ts';
import { groupOf, pillOf } from '../groups.ts';
import { Icon } from './icon.tsx';

export function Pill({ facts }: { readonly facts: Facts }) {
  const { icon, label } = pillOf(facts);
  return (
    <span class={`pill pill-${icon === 'idle' ? icon : groupOf(facts)}`}>
      <Icon name={icon} />
      {label}
    </span>
  );
}
