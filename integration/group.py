import sys
from pathlib import Path
p=Path(sys.argv[1]); t=p.read_text()
for a,b in [
("        **consumer: Any,\n    ) -> None:","        via: FaultProxy | None = None,\n        **consumer: Any,\n    ) -> None:"),
("            **consumer: Settings for the client, named","            via: All of its connections pass this proxy, which may then hit them.\n            **consumer: Settings for the client, named"),
("            bootstrap=self.bootstrap,\n","            bootstrap=self.bootstrap if via is None else via.admit(name, self.group, incarnation),\n"),
("if not (each.paused or each.stalled)]","if not each.away]"),
("Names; default: all that run and are neither paused nor stalled.","Names; default: all that run and are neither paused, stalled nor cut off."),
("        self._processes[name] = self._spawn(config, self.folder / stem)\n","        process = self._processes[name] = self._spawn(config, self.folder / stem)\n        process.via = via\n"),
('''        if process.paused:
            raise ConfigError(f"member {name!r} of group {self.group!r} is paused; resume or kill it")
        self._count_from_here()
        process.terminate()
''','''        if process.paused or process.cut_off:
            what = "paused; resume" if process.paused else "cut off; heal that"
            raise ConfigError(f"member {name!r} of group {self.group!r} is {what} or kill it")
        self._count_from_here()
        process.terminate()
'''),
("            ConfigError: No such member is running, or it is paused.\n            MemberDied: It didn't end","            ConfigError: No such member is running, or it is paused or cut off.\n            MemberDied: It didn't end"),
('''            for process in self._processes.values():
                with suppress(OSError):
                    process.terminate()
''','''            for process in self._processes.values():
                with suppress(OSError, HarnessError):  # it has ended, or its proxy
                    if process.via is not None:
                        process.via.heal()
                with suppress(OSError):
                    process.terminate()
'''),
("from .errors import MemberDied, NotDrained, NotStable\n","from .errors import HarnessError, MemberDied, NotDrained, NotStable\n"),
("from .process import MemberProcess, PythonProcess\n","from .process import MemberProcess, PythonProcess\nfrom .proxy import FaultProxy\n"),
]:
    assert t.count(a)==1,(a,t.count(a)); t=t.replace(a,b)
p.write_text(t)
