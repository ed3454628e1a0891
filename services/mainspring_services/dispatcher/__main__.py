"""``python -m mainspring_services.dispatcher``."""

import gc

gc.disable()  # what is imported stays, and the collector would walk over it many times: `spare_collector` enables it

from mainspring_services.dispatcher.main import main  # noqa: E402

raise SystemExit(main())
