import sys
from pathlib import Path
p=Path(sys.argv[1]); t=p.read_text()
for a,b in [
("    stalled: bool = False\n","    stalled: bool = False\n    via: FaultProxy | None = None\n"),
('''    """

    config: MemberConfig
    output: Path
''','''        via: The proxy that its connections pass.
    """

    config: MemberConfig
    output: Path
'''),
('''    @property
    def clean(self) -> bool:''','''    @property
    def cut_off(self) -> bool:
        """Whether a proxy lets nothing of it pass."""
        return self.via is not None and self.via.cuts_off(self.config.member)

    @property
    def away(self) -> bool:
        """Whether it can't take part in its group now: paused, stalled or cut off."""
        return self.paused or self.stalled or self.cut_off

    @property
    def clean(self) -> bool:'''),
]:
    assert t.count(a)==1,(a,t.count(a)); t=t.replace(a,b)
import re
# import after the last relative import
i=t.index("\n\n\n@dataclass"); head=t[:i]
head=head+"\nfrom .proxy import FaultProxy"
t=head+t[i:]
p.write_text(t)
